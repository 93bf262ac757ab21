"""For each recipient of a thing, write one item."""

from .fan_out import MAX_OPEN_PAGES, fan_out
from .progress import FanOutReport
from .sources import PageSource, QueryPages, RecipientPage, iterable_pages, paginator_pages, query_pages

__all__ = [
    "MAX_OPEN_PAGES",
    "FanOutReport",
    "PageSource",
    "QueryPages",
    "RecipientPage",
    "fan_out",
    "iterable_pages",
    "paginator_pages",
    "query_pages",
]
