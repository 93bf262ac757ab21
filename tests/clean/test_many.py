"""The benchmark of the cleaner in small: over HTTP, at a bounded rate, with flat memory, beside what must stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dynadurable.storage.items import bind
from dynadurable.storage.schema import TableSchema
from tests.bench import cleaning
from tests.conftest import Servers

ITEMS, RATE = 1_200, 500.0
"""In CI; ``python3 dev.py bench clean`` takes a million."""


@pytest.fixture
def endpoint(servers: Servers) -> Iterator[str]:
    """A server without the benchmark's table."""
    url = servers["roto"].endpoint_url
    yield url
    cleaning.client_on(url).delete_table(TableName=cleaning.TABLE)


@pytest.mark.server
def test_many_expired_items_go_at_a_bounded_rate(endpoint: str) -> None:
    outcome = cleaning.clean(endpoint, items=ITEMS, rate=RATE, shows=False)
    assert outcome.wrong == []
    assert outcome.report.seconds >= (ITEMS - cleaning.BURST) / RATE


@pytest.mark.server
def test_the_benchmark_sees_what_was_not_removed_and_what_is_gone(endpoint: str) -> None:
    client = cleaning.client_on(endpoint)
    cleaning.create(client)
    cleaning.fill(client, 150)
    assert cleaning.look_over(client, 150) == "150 was not removed"
    [run, mark, stranger] = cleaning.kept(bind(TableSchema(table=cleaning.TABLE, ttl=None)), 1)
    for item in (run, stranger):
        client.delete_item(TableName=cleaning.TABLE, Key={"pk": item["pk"], "sk": item["sk"]})
    client.put_item(TableName=cleaning.TABLE, Item={**mark, "dd_ttl": {"N": "1"}})
    assert cleaning.look_over(client, 150) == "150 was not removed, 1 has changed, 2 is missing"
