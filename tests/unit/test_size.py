"""The sizes of items: two ways of counting them, one for low-level items and one for the memory store's, agree."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dynadurable.storage.size import item_bytes
from dynadurable.testing.memory.size import of_item
from dynadurable.testing.memory.value import to_item

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(bool)
numbers = st.builds(
    lambda digits, exponent: str(Decimal(digits).scaleb(exponent)),
    st.integers(-(10**20), 10**20),
    st.integers(-60, 60),
)


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.builds(lambda text: {"S": text}, texts),
        st.builds(lambda number: {"N": number}, numbers),
        st.builds(lambda data: {"B": data}, st.binary(max_size=20)),
        st.builds(lambda flag: {"BOOL": flag}, st.booleans()),
        st.just({"NULL": True}),
        st.builds(lambda members: {"SS": sorted(members)}, st.sets(texts, min_size=1, max_size=4)),
        st.builds(lambda members: {"BS": sorted(members)}, st.sets(st.binary(max_size=9), min_size=1, max_size=4)),
        st.builds(lambda members: {"NS": list(map(str, members))}, st.sets(st.integers(), min_size=1, max_size=4)),
    )


values = st.recursive(
    scalars(),
    lambda inner: (
        st.builds(lambda members: {"L": members}, st.lists(inner, max_size=3))
        | st.builds(lambda members: {"M": members}, st.dictionaries(names, inner, max_size=3))
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(names, values, max_size=5))
def test_an_item_is_as_large_as_the_memory_store_says(item: dict[str, Any]) -> None:
    assert item_bytes(item) == of_item(to_item(item))
