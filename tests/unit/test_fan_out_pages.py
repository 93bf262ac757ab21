"""The bookkeeping of a fan-out, without any I/O: pages, pools, sources."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import ConfigurationError
from dynadurable.fan_out.ledger import OpenPage, PageLedger
from dynadurable.fan_out.pool import DaemonPool
from dynadurable.fan_out.sources import RecipientPage, iterable_pages, until_last


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_only_pages_that_are_done_without_a_gap_are_passed_over(batches: list[int], data: st.DataObject) -> None:
    """Whatever the order in which batches end."""
    ledger = PageLedger()
    pages = [ledger.open(count * 25, number) for number, count in enumerate(batches)]
    for page, count in zip(pages, batches, strict=True):
        for _ in range(count):
            ledger.give_out(page)
        ledger.close(page)
    flying = data.draw(st.permutations([page for page in pages for _ in range(page.left)]))
    passed = -1
    for number in range(len(flying) + 1):
        if number:
            ledger.done(flying[number - 1])
        last = ledger.advance()
        passed = passed if last is None else last.cursor
        assert passed == _last_without_gap(pages)
        assert ledger.written == sum(page.recipients for page in pages[: passed + 1])
        assert ledger.open_pages == len(pages) - passed - 1
    assert passed == len(pages) - 1


def _last_without_gap(pages: list[OpenPage]) -> int:
    for number, page in enumerate(pages):
        if page.left:
            return number - 1
    return len(pages) - 1


def test_a_page_that_is_still_given_out_is_not_passed_over() -> None:
    ledger = PageLedger()
    page = ledger.open(50, "a")
    ledger.give_out(page)
    ledger.done(page)
    assert ledger.advance() is None
    ledger.close(page)
    assert ledger.advance() is page


def test_what_a_crash_would_repeat_is_counted_until_it_is_recorded() -> None:
    ledger = PageLedger()
    for batches in (2, 0):
        page = ledger.open(50, "a")
        for _ in range(batches):
            ledger.give_out(page)
            ledger.done(page)
        ledger.close(page)
    ledger.advance()
    assert (ledger.unrecorded_batches, ledger.unrecorded_pages) == (2, 2)
    ledger.recorded()
    assert (ledger.unrecorded_batches, ledger.unrecorded_pages) == (0, 0)


def test_an_iterable_is_read_two_pages_ahead_at_most() -> None:
    """A million recipients do not fit into memory."""
    read: list[int] = []

    def numbers(after: Any) -> Any:
        for number in range(1_000_000):
            read.append(number)
            yield number

    pages = iterable_pages(numbers, cursor_of=lambda number: number, page_items=10)(None)
    assert [page.recipients[0] for page in islice(pages, 3)] == [0, 10, 20]
    assert len(read) == 40


def test_the_page_without_a_cursor_is_the_last() -> None:
    pages = [RecipientPage(["a"], "a"), RecipientPage(["b"], None)]
    assert list(until_last(pages)) == pages
    assert list(until_last([])) == []
    with pytest.raises(ConfigurationError, match="cursor"):
        list(until_last([*pages, RecipientPage([], None)]))


def test_a_pool_tells_which_task_has_raised_what() -> None:
    pool: DaemonPool[str] = DaemonPool(2, name="test")

    def fail() -> None:
        raise ValueError("no")

    pool.submit(fail, "bad")
    pool.submit(lambda: None, "good")
    ended: dict[str, BaseException | None] = {}
    while pool.flying:
        ended.update(pool.ended())
    assert ended["good"] is None
    assert isinstance(ended["bad"], ValueError)
    pool.close()


def test_a_pool_never_keeps_the_process_alive() -> None:
    pool: DaemonPool[int] = DaemonPool(3, name="lone-pool")
    pool.submit(lambda: None, 1)
    assert pool.ended() == [(1, None)]
    assert [thread.daemon for thread in threading.enumerate() if thread.name.startswith("lone-pool")] == [True]
    pool.close()
