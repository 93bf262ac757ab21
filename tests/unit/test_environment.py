"""The variables by which a deployment tells a process which table is its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import ConfigurationError
from dynadurable.storage.environment import from_environment, to_environment
from dynadurable.storage.schema import TableSchema

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(
    keys=st.lists(names.filter(lambda name: not name.startswith("dd_")), min_size=3, max_size=3, unique=True),
    has_ttl=st.booleans(),
    prefix=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
)
def test_what_is_written_is_read_back(keys: list[str], has_ttl: bool, prefix: str) -> None:
    schema = TableSchema(
        table="shop", partition_key=keys[0], sort_key=keys[1], ttl=keys[2] if has_ttl else None, prefix=prefix
    )
    assert from_environment(to_environment(schema)) == schema


def test_the_usual_names_need_only_the_table() -> None:
    assert to_environment(TableSchema(table="shop")) == {"DYNADURABLE_TABLE": "shop"}


@pytest.mark.parametrize("environ", [{}, {"DYNADURABLE_TABLE": ""}, {"DYNADURABLE_PREFIX": "jobs/"}])
def test_a_missing_table_name_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="DYNADURABLE_TABLE"):
        from_environment(environ)
