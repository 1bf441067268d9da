"""What counts as a text: something that a reader would see.

A caption of a zero-width space, a byte order mark or a mark of direction alone is not blank to Python, and a tower
embeds it as if it said something. Such letters are legal inside a text, where Persian, Hindi and emoji need them.
"""

import unicodedata

# Letters or marks by their category, and without a shape: fillers of Hangul, a blank of Braille, two vowels of Khmer.
_SHAPELESS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
# Format characters that are drawn: signs of Arabic and Syriac that stand over numbers, and the like.
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0000, 0xE0FFF), (0x2060, 0x206F), (0xFFF0, 0xFFF8))


def is_blank(text: str) -> bool:
    """Whether nothing of a text can be seen."""
    return not any(map(_visible, text))


def _visible(letter: str) -> bool:
    if letter.isascii():
        return letter.isprintable() and letter != " "
    if letter in _SHAPELESS or any(first <= ord(letter) <= last for first, last in _SELECTORS):
        return False
    return letter in _DRAWN or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
