"""What a run's cursor says about its fan-outs; shared by the sync and the async primitive. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import ConfigurationError
from ..worker.context import ContextBase
from .ledger import OpenPage, PageLedger

LOG_SECONDS = 5.0
MAX_UNRECORDED_PAGES = 10
"""A page for which nothing was written needs no checkpoint of its own; so many in a row share one."""
_FORMAT = "fan_out"
_begun: WeakKeyDictionary[ContextBase, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True, slots=True)
class FanOutReport:
    """What a fan-out did over all its attempts, as far as it is recorded, and where this attempt began."""

    recipients: int
    resumed_after: int


class Progress:
    """How far one fan-out of a run has come."""

    def __init__(self, ctx: ContextBase, name: str, state: dict[str, Any]) -> None:
        self._ctx = ctx
        self._name = name
        self.cursor: Any = state.get("after")
        self.written: int = state.get("written", 0)
        self.finished: bool = state.get("finished", False)
        self.resumed_after = self.written
        self._logged_at = ctx.clock.monotonic()

    @classmethod
    def of(cls, ctx: ContextBase, name: str) -> Progress:
        """Read it from the context.

        Raises:
            ConfigurationError: the body also records cursors of its own, or has used this name before.
        """
        names = _begun.setdefault(ctx, set())
        if name in names:
            raise ConfigurationError(
                f"this body has a fan-out named {name!r} already; give each its own: fan_out(..., name='mentions')"
            )
        names.add(name)
        return cls(ctx, name, _states(ctx).get(name, {}))

    def passed(self, page: OpenPage, ledger: PageLedger) -> dict[str, Any] | None:
        """The cursor to record now that the pages up to this one are done; ``None`` if that can wait.

        Call ``ledger.recorded()`` once it is recorded.
        """
        self.cursor, self.written = page.cursor, self.resumed_after + ledger.written
        self.finished = page.cursor is None
        self._log()
        if not ledger.unrecorded_batches and ledger.unrecorded_pages < MAX_UNRECORDED_PAGES:
            return None
        state: dict[str, Any] = {"written": self.written}
        state |= {"finished": True} if self.finished else {"after": self.cursor}
        return {_FORMAT: {**_states(self._ctx), self._name: state}}

    def report(self) -> FanOutReport:
        """What the caller of the fan-out is told."""
        return FanOutReport(recipients=self.written, resumed_after=self.resumed_after)

    def _log(self) -> None:
        now = self._ctx.clock.monotonic()
        if self.finished or now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            self._ctx.log.info("fan-out %s: %s recipients done", self._name or self._ctx.job, f"{self.written:,}")


def _states(ctx: ContextBase) -> dict[str, Any]:
    """All fan-outs of the run, by name."""
    cursor = ctx.cursor
    if cursor is None:
        return {}
    if not isinstance(cursor, dict) or cursor.keys() != {_FORMAT}:
        raise ConfigurationError(
            "a body that fans out leaves ctx.checkpoint to the fan-out, but the run's cursor is not one of a fan-out; "
            "do what needs a cursor of its own in another job"
        )
    states: dict[str, Any] = cursor[_FORMAT]
    return states
