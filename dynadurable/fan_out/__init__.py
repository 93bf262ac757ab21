"""For each recipient of a thing, write one item."""

from .fan_out import MAX_OPEN_PAGES, fan_out
from .fan_out_aio import fan_out_async
from .progress import FanOutReport
from .sources import PageSource, QueryPages, RecipientPage, iterable_pages, paginator_pages, query_pages
from .sources_aio import AsyncPageSource, async_iterable_pages, async_paginator_pages

__all__ = [
    "MAX_OPEN_PAGES",
    "AsyncPageSource",
    "FanOutReport",
    "PageSource",
    "QueryPages",
    "RecipientPage",
    "async_iterable_pages",
    "async_paginator_pages",
    "fan_out",
    "fan_out_async",
    "iterable_pages",
    "paginator_pages",
    "query_pages",
]
