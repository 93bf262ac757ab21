"""Where recipients come from, page by page, resumable from a cursor.

A source is a function that takes a cursor (``None`` at first) and yields pages from there. Its cursors must be values
that can be stored (see ``model/codec.py``), such as DynamoDB's ``LastEvaluatedKey``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from ..errors import ConfigurationError
from ..storage.call import Call, Response

Recipient = TypeVar("Recipient")
Recipient_co = TypeVar("Recipient_co", covariant=True)

PAGE_ITEMS = 200
"""A checkpoint for every eight batches costs an eighth more requests; a crash repeats at most 400 writes."""
GOES_ON = (
    "a page source yielded a page without a cursor, which says that it is the last, and then another; "
    "give each page the cursor from which to go on after it"
)


@dataclass(frozen=True, slots=True)
class RecipientPage(Generic[Recipient]):
    """Some recipients, and the cursor from which to go on after them; ``None`` if these are the last."""

    recipients: Sequence[Recipient]
    cursor: Any


class PageSource(Protocol[Recipient_co]):
    """Yields pages from a cursor on."""

    def __call__(self, cursor: Any, /) -> Iterable[RecipientPage[Any]]:
        """Pages after ``cursor``; from the beginning for ``None``."""
        ...


@dataclass(frozen=True, slots=True)
class QueryPages:
    """A DynamoDB Query; its recipients are items as boto3's low-level client gives them. Made by ``query_pages``."""

    params: dict[str, Any]

    def call(self, cursor: Any) -> Call:
        """The request for the page after ``cursor``."""
        start = {} if cursor is None else {"ExclusiveStartKey": cursor}
        return Call(operation="Query", params={**self.params, **start})

    def page(self, reply: Response) -> RecipientPage[dict[str, Any]]:
        """What a reply holds. A page may be empty and yet not the last."""
        return RecipientPage(reply.get("Items", []), reply.get("LastEvaluatedKey"))


def query_pages(*, page_items: int = PAGE_ITEMS, **params: Any) -> QueryPages:
    """The items of a Query, ``page_items`` at a time; parameters as of boto3's ``client.query``.

    A page is what one checkpoint covers: larger pages cost less, and more is repeated after a crash.

    >>> query_pages(
    ...     TableName="krabber",
    ...     KeyConditionExpression="pk = :krab",
    ...     ExpressionAttributeValues={":krab": {"S": "followers#ferris"}},
    ... ).params["Limit"]
    200
    """
    check_start(params)
    check_size(page_items)
    return QueryPages({"Limit": page_items, **params})


def paginator_pages(paginator: Any, *, page_items: int = PAGE_ITEMS, **params: Any) -> PageSource[dict[str, Any]]:
    """The items of a boto3 DynamoDB paginator (``query`` or ``scan``), ``page_items`` at a time.

    >>> source = paginator_pages(client.get_paginator("query"), TableName=..., ...)  # doctest: +SKIP
    """
    check_start(params)
    check_size(page_items)
    limited = {"Limit": page_items, **params}

    def pages(cursor: Any) -> Iterator[RecipientPage[dict[str, Any]]]:
        start = {} if cursor is None else {"ExclusiveStartKey": cursor}
        for reply in paginator.paginate(**limited, **start):
            yield RecipientPage(reply.get("Items", []), reply.get("LastEvaluatedKey"))

    return pages


def iterable_pages(
    iterate: Callable[[Any], Iterable[Recipient]],
    *,
    cursor_of: Callable[[Recipient], Any],
    page_items: int = PAGE_ITEMS,
) -> PageSource[Recipient]:
    """Any iterable that can begin after a given recipient.

    ``iterate(cursor)`` gives the recipients after ``cursor`` in a fixed order, ``cursor_of(recipient)`` the cursor of
    one.

    >>> numbers = iterable_pages(lambda after: range((after or 0) + 1, 6), cursor_of=lambda n: n, page_items=2)
    >>> [page.recipients for page in numbers(2)]
    [[3, 4], [5]]
    """
    check_size(page_items)

    def pages(cursor: Any) -> Iterator[RecipientPage[Recipient]]:
        rest = iter(iterate(cursor))
        chunk = list(islice(rest, page_items))
        while chunk:
            following = list(islice(rest, page_items))
            yield RecipientPage(chunk, cursor_of(chunk[-1]) if following else None)
            chunk = following

    return pages


def pages_from(
    source: QueryPages | PageSource[Any], cursor: Any, send: Callable[[Call], Response]
) -> Iterator[RecipientPage[Any]]:
    """The pages of a source after ``cursor``; ``send`` sends a request.

    Raises:
        ConfigurationError: not a source, or one that goes on after the page that it called the last.
    """
    if isinstance(source, QueryPages):
        return _queried(source, cursor, send)
    if not callable(source):
        raise ConfigurationError(
            f"a fan-out reads from query_pages(...), paginator_pages(...), iterable_pages(...) or a function that "
            f"yields RecipientPage from a cursor on, not from {source!r:.80}"
        )
    return until_last(source(cursor))


def _queried(source: QueryPages, cursor: Any, send: Callable[[Call], Response]) -> Iterator[RecipientPage[Any]]:
    while True:
        page = source.page(send(source.call(cursor)))
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def until_last(pages: Iterable[RecipientPage[Any]]) -> Iterator[RecipientPage[Any]]:
    """The pages up to the one without a cursor, which must be the last: else the rest would be lost silently."""
    rest = iter(pages)
    for page in rest:
        if page.cursor is None and next(rest, None) is not None:
            raise ConfigurationError(GOES_ON)
        yield page


def check_start(params: dict[str, Any]) -> None:
    """The beginning is the fan-out's to choose."""
    if "ExclusiveStartKey" in params:
        raise ConfigurationError("a source takes no ExclusiveStartKey: the fan-out resumes from its own cursor")


def check_size(page_items: int) -> None:
    """A page holds something."""
    if page_items < 1:
        raise ConfigurationError(f"page_items must be at least 1, not {page_items!r}")
