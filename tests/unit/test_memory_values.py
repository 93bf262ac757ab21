"""Numbers, sizes and words as the in-memory store knows them."""

from __future__ import annotations

from decimal import Decimal
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.testing.memory import number, size
from dynadurable.testing.memory.reserved import RESERVED_WORDS


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=7))
def test_a_canonical_number_is_equal_and_stays_as_it_is(value: Decimal) -> None:
    text = number.to_canonical(str(value))
    assert Decimal(text) == value
    assert number.to_canonical(text) == text
    assert "E" not in text.upper()


@given(st.integers(-(10**18), 10**18), st.integers(-(10**18), 10**18))
def test_sums_and_differences_are_exact(left: int, right: int) -> None:
    assert number.add(str(left), str(right)) == str(left + right)
    assert number.subtract(str(left), str(right)) == str(left - right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 1),
        ("1", 2),
        ("12", 2),
        ("123", 3),
        ("1234", 3),
        ("1200", 2),
        ("120", 3),
        ("-1", 3),
        ("1.2", 3),
        ("0.5", 2),
        ("0.0001", 2),
        ("-0.01", 3),
        ("100.01", 4),
        ("12345678901234567890123456789012345678", 20),
    ],
)
def test_a_number_takes_a_byte_for_each_pair_of_digits(text: str, expected: int) -> None:
    assert number.to_size(text) == expected
    assert size.of_value({"N": text}) == expected


def test_reserved_words_are_those_that_others_know() -> None:
    listed = (files("moto.dynamodb") / "parsing" / "reserved_keywords.txt").read_text().split()
    assert {word.lower() for word in listed} == RESERVED_WORDS
