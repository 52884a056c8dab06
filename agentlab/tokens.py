"""Estimate tokens where no provider counts them. An estimate is always marked as one."""

CJK_TOKENS_PER_CHAR = 0.8
OTHER_TOKENS_PER_CHAR = 0.25


def estimate_tokens(text: str) -> int:
    """Return a rough token count: about 0.8 a CJK character, one for four characters of other text."""
    if text.isascii():
        return round(len(text) * OTHER_TOKENS_PER_CHAR)
    # A CJK character takes three bytes of UTF-8: counting bytes is much faster than looking at each character.
    wide = (len(text.encode("utf-8", "replace")) - len(text)) // 2
    return round(wide * CJK_TOKENS_PER_CHAR + (len(text) - wide) * OTHER_TOKENS_PER_CHAR)
