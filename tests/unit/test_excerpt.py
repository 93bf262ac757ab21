"""Text cut to size."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dynadurable.model.excerpt import excerpt

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=400)


@given(ANY_TEXT, st.integers(1, 40), st.integers(64, 400))
def test_no_text_takes_more_than_its_bytes_in_any_encoding(text: str, times: int, limit: int) -> None:
    cut = excerpt(text * times, limit)
    assert len(json.dumps(cut)) - 2 <= limit
    assert len(cut.encode()) <= limit


@given(st.text(max_size=60))
def test_text_that_fits_stays_as_it_is(text: str) -> None:
    assert excerpt(text, 1_000) == text


def test_control_characters_stay() -> None:
    """PUB-30: nothing is stripped."""
    assert excerpt("a\u0000b\u001f\u2028 👩‍👩‍👧 é", 200) == "a\u0000b\u001f\u2028 👩‍👩‍👧 é"


def test_a_lone_surrogate_is_spelled_out() -> None:
    assert excerpt("caf\udce9", 200) == "caf\\udce9"


def test_head_and_tail_stay_and_what_is_missing_is_counted() -> None:
    cut = excerpt("first " + "x" * 100_000_000 + " last", 100)
    assert cut.startswith("first ")
    assert cut.endswith(" last")
    assert "characters left out" in cut
