from cart import shipping


def test_small_orders_pay():
    assert shipping(4999) == 490


def test_free_from_fifty():
    assert shipping(5000) == 0
