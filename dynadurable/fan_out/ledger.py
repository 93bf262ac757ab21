"""Which pages of a fan-out are done without a gap: only that may be recorded. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class OpenPage:
    """A page whose batches are being written."""

    recipients: int
    cursor: Any
    """Where to go on after it; ``None`` after the last page."""
    given_out: int = 0
    left: int = 0
    complete: bool = False
    """All its batches have been given out."""


@dataclass(slots=True)
class PageLedger:
    """Pages in the order in which they were read. Batches of a page may end in any order.

    >>> ledger = PageLedger(); first = ledger.open(2, "a"); second = ledger.open(1, "b")
    >>> for page in (first, second):
    ...     ledger.give_out(page); ledger.close(page)
    >>> ledger.done(second); ledger.advance() is None
    True
    >>> ledger.done(first); ledger.advance().cursor
    'b'
    """

    written: int = 0
    """Recipients of all pages passed over by ``advance``."""
    unrecorded_batches: int = 0
    """Batches of pages passed over since the last ``recorded``: what a crash now would repeat of them."""
    unrecorded_pages: int = 0
    """Pages passed over since the last ``recorded``, those without batches included."""
    _pages: deque[OpenPage] = field(default_factory=deque)

    def open(self, recipients: int, cursor: Any) -> OpenPage:
        page = OpenPage(recipients=recipients, cursor=cursor)
        self._pages.append(page)
        return page

    def give_out(self, page: OpenPage) -> None:
        """One of its batches is on its way."""
        page.given_out += 1
        page.left += 1

    def close(self, page: OpenPage) -> None:
        """It has no further batches."""
        page.complete = True

    def done(self, page: OpenPage) -> None:
        """One of its batches is written."""
        page.left -= 1

    @property
    def open_pages(self) -> int:
        """Pages begun and not yet passed over."""
        return len(self._pages)

    def advance(self) -> OpenPage | None:
        """Pass over all pages that are done without a gap; the last of them, or ``None`` if there is none."""
        last = None
        while self._pages and self._pages[0].complete and self._pages[0].left == 0:
            last = self._pages.popleft()
            self.written += last.recipients
            self.unrecorded_batches += last.given_out
            self.unrecorded_pages += 1
        return last

    def recorded(self) -> None:
        """What was passed over so far stands in the table."""
        self.unrecorded_batches = self.unrecorded_pages = 0
