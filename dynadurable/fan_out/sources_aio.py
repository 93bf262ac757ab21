"""Where recipients come from on an event loop. A source that is not asynchronous serves too, if it does not block."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, Protocol, TypeVar

from ..errors import ConfigurationError
from ..storage.call import Call, Response
from .sources import GOES_ON, PAGE_ITEMS, PageSource, QueryPages, RecipientPage, check_size, check_start

Recipient = TypeVar("Recipient")


class AsyncPageSource(Protocol):
    """Yields pages from a cursor on."""

    def __call__(self, cursor: Any, /) -> AsyncIterable[RecipientPage[Any]]:
        """Pages after ``cursor``; from the beginning for ``None``."""
        ...


def async_paginator_pages(paginator: Any, *, page_items: int = PAGE_ITEMS, **params: Any) -> AsyncPageSource:
    """The items of a DynamoDB paginator (``query`` or ``scan``) of aioboto3 or aiobotocore.

    >>> source = async_paginator_pages(client.get_paginator("query"), TableName=..., ...)  # doctest: +SKIP
    """
    check_start(params)
    check_size(page_items)
    limited = {"Limit": page_items, **params}

    async def pages(cursor: Any) -> AsyncIterator[RecipientPage[dict[str, Any]]]:
        start = {} if cursor is None else {"ExclusiveStartKey": cursor}
        async for reply in paginator.paginate(**limited, **start):
            yield RecipientPage(reply.get("Items", []), reply.get("LastEvaluatedKey"))

    return pages


def async_iterable_pages(
    iterate: Callable[[Any], AsyncIterable[Recipient]],
    *,
    cursor_of: Callable[[Recipient], Any],
    page_items: int = PAGE_ITEMS,
) -> AsyncPageSource:
    """Any asynchronous iterable that can begin after a given recipient; see ``iterable_pages``.

    >>> source = async_iterable_pages(subscribers_after, cursor_of=lambda one: one.id)  # doctest: +SKIP
    """
    check_size(page_items)

    async def pages(cursor: Any) -> AsyncIterator[RecipientPage[Recipient]]:
        chunk: list[Recipient] = []
        recipients = iterate(cursor)
        async with _closing(recipients):
            async for recipient in recipients:
                if len(chunk) == page_items:
                    yield RecipientPage(chunk, cursor_of(chunk[-1]))
                    chunk = []
                chunk.append(recipient)
        if chunk:
            yield RecipientPage(chunk, None)

    return pages


async def pages_from(
    source: QueryPages | AsyncPageSource | PageSource[Any],
    cursor: Any,
    send: Callable[[Call], Awaitable[Response]],
) -> AsyncGenerator[RecipientPage[Any], None]:
    """The pages of a source after ``cursor``, up to the one without a cursor; ``send`` sends a request.

    Raises:
        ConfigurationError: not a source, or one that goes on after the page that it called the last.
    """
    pages = _queried(source, cursor, send) if isinstance(source, QueryPages) else _given(source, cursor)
    async with aclosing(pages):
        async for page in pages:
            if page.cursor is None and await anext(pages, None) is not None:  # else the rest would be lost silently
                raise ConfigurationError(GOES_ON)
            yield page


async def _queried(
    source: QueryPages, cursor: Any, send: Callable[[Call], Awaitable[Response]]
) -> AsyncGenerator[RecipientPage[Any], None]:
    while True:
        page = source.page(await send(source.call(cursor)))
        yield page
        cursor = page.cursor
        if cursor is None:
            return


async def _given(source: AsyncPageSource | PageSource[Any], cursor: Any) -> AsyncGenerator[RecipientPage[Any], None]:
    if not callable(source):
        raise ConfigurationError(
            f"a fan-out reads from query_pages(...), async_paginator_pages(...), async_iterable_pages(...) or a "
            f"function that yields RecipientPage from a cursor on, not from {source!r:.80}"
        )
    pages = source(cursor)
    if isinstance(pages, Iterable):
        for page in pages:
            yield page
        return
    async with _closing(pages):
        async for page in pages:
            yield page


def _closing(pages: AsyncIterable[Any]) -> AbstractAsyncContextManager[Any]:
    """Ends a generator at once, and not when it is collected."""
    return aclosing(pages) if isinstance(pages, AsyncGenerator) else nullcontext(pages)
