"""Prices of a shopping cart, in cents."""

FREE_SHIPPING_FROM_CENTS = 5000
SHIPPING_CENTS = 490


def total(prices_cents: list[int], discount_percent: int = 0) -> int:
    """Return the sum of the prices with the discount taken off."""
    return sum(prices_cents) * (100 - discount_percent) // 100


def shipping(total_cents: int) -> int:
    """Return what shipping costs."""
    return 0 if total_cents >= FREE_SHIPPING_FROM_CENTS else SHIPPING_CENTS
