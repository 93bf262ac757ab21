"""For each recipient of a thing, write one item."""

from .fan_out import FanOutReport, fan_out
from .sources import PageSource, QueryPages, RecipientPage, iterable_pages, paginator_pages, query_pages

__all__ = [
    "FanOutReport",
    "PageSource",
    "QueryPages",
    "RecipientPage",
    "fan_out",
    "iterable_pages",
    "paginator_pages",
    "query_pages",
]
