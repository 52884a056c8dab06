from cart import total


def test_sum():
    assert total([1000, 500]) == 1500


def test_discount():
    assert total([1000, 500], discount_percent=20) == 1200
