"""DynamoDB's numbers: decimal text of up to 38 significant digits, from 1E-130 to 9.99...E+125."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from functools import lru_cache

MAXIMUM_DIGITS = 38
LARGEST_EXPONENT = 125
SMALLEST_EXPONENT = -130

_TEXT = re.compile(r"([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d+))?", re.ASCII)
_EXACT = Context(prec=600)  # holds every sum and difference of two numbers without rounding


class NumberRefusedError(ValueError):
    """Text that is no number, or one outside of what DynamoDB keeps."""


def to_canonical(text: object) -> str:
    """The one text for a number's value: no exponent, no needless zero, no plus.

    >>> to_canonical("1.10"), to_canonical("+2e3"), to_canonical("-0")
    ('1.1', '2000', '0')

    Raises:
        NumberRefusedError: no number, too many digits, or out of range.
    """
    if type(text) is not str:
        raise NumberRefusedError(f"a number is given as text, not as {type(text).__name__}")
    if text.isdigit() and text.isascii() and len(text) <= MAXIMUM_DIGITS and (text[0] != "0" or len(text) == 1):
        return text  # by far the most numbers are plain and canonical already
    return _to_canonical(text)


@lru_cache(maxsize=4096)
def _to_canonical(text: str) -> str:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise NumberRefusedError(f"{text!r} cannot be converted to a numeric value")
    sign, whole, fraction, bare_fraction, exponent_text = match.groups()
    fraction = bare_fraction or fraction or ""
    all_digits = ((whole or "") + fraction).lstrip("0")
    digits = all_digits.rstrip("0")
    if not digits:
        return "0"
    if exponent_text and len(exponent_text) > 6:
        raise NumberRefusedError(f"{text!r} is outside of the range of numbers")
    exponent = int(exponent_text or 0) - len(fraction) + len(all_digits) - len(digits)
    leading = exponent + len(digits) - 1
    if not SMALLEST_EXPONENT <= leading <= LARGEST_EXPONENT:
        raise NumberRefusedError(f"{text!r} is outside of the range of numbers")
    if len(digits) > MAXIMUM_DIGITS:
        raise NumberRefusedError(f"{text!r} has more than {MAXIMUM_DIGITS} significant digits")
    return ("-" if sign == "-" else "") + _plain(digits, exponent)


def _plain(digits: str, exponent: int) -> str:
    if exponent >= 0:
        return digits + "0" * exponent
    point = len(digits) + exponent
    return f"{digits[:point]}.{digits[point:]}" if point > 0 else f"0.{'0' * -point}{digits}"


def add(left: str, right: str) -> str:
    """The exact sum of two canonical numbers, canonical.

    Raises:
        NumberRefusedError: the sum needs more than 38 digits or is out of range.
    """
    return to_canonical(format(_EXACT.add(Decimal(left), Decimal(right)), "f"))


def subtract(left: str, right: str) -> str:
    """The exact difference of two canonical numbers, canonical; raises as ``add`` does."""
    return to_canonical(format(_EXACT.subtract(Decimal(left), Decimal(right)), "f"))


@lru_cache(maxsize=4096)
def to_size(text: str) -> int:
    """The bytes that a canonical number takes: one, one for each pair of digits, and one for a minus.

    Pairs are counted from the decimal point, leading and trailing pairs of zeros are free: ``1234`` is 12|34 and takes
    3 bytes, ``123`` is 1|23 and takes 3, ``1.2`` is 1|20 and takes 3, ``1200`` is 12|00 and takes 2, ``-1`` takes 3.
    """
    negative = text[0] == "-"
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = whole.zfill(len(whole) + len(whole) % 2) + fraction.ljust(len(fraction) + len(fraction) % 2, "0")
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    significant = [at for at, pair in enumerate(pairs) if pair != "00"]
    if not significant:
        return 1
    return 1 + significant[-1] - significant[0] + 1 + negative
