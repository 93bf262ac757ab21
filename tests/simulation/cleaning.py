"""A cast with cleaners: runs expire within seconds, and are removed while workers, callers and operators are at it.

The cleaners hold no lease here, so that several are at work at once, also when one is frozen and wakes up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from dynadurable.control.cleaning import CleanPlans, CleanSettings
from dynadurable.errors import DynadurableError
from dynadurable.storage import births, leftovers
from dynadurable.storage.keys import parse_mark_sort_key
from tests import laws
from tests.simulation.actors import Cast
from tests.simulation.checks import Checker, Raw
from tests.simulation.world import START_MS, Steps, World

KEPT_SECONDS = 3
MARGIN_MS = 3_000
SETTLED_MS = 20_000
PASSES = 8


class CleaningChecker(Checker):
    """What a cleaner may remove, and what nobody else may."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.removed = 0

    def on_write(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        if new is None and old is not None and actor.startswith("sweeper"):
            self._on_removal(actor, key, old)
        if key[1] == "run" and new is None:
            return
        super().on_write(actor, key, old, new)
        if key[0].startswith("dead#") and new is None and old is not None and actor.startswith("sweeper"):
            self._on_letter(actor, key, old)

    def _check_owner(self, actor: str, key: tuple[str, str], old: dict[str, Any], new: Raw) -> None:
        if new is not None or not actor.startswith("sweeper"):  # what a cleaner deletes is checked by itself
            super()._check_owner(actor, key, old, new)

    def _letters(self, items: list[dict[str, Any]], runs: dict[str, dict[str, Any]]) -> None:
        kept = {run_id: run for run_id, run in runs.items() if not self._has_expired(run)}
        super()._letters(items, kept)  # of a letter and its run, which expire together, one may go first

    def may_be_gone(self, run_id: str, life: str) -> bool:
        return any(ended_id == run_id for ended_id, _ in self.ends)

    def _on_removal(self, actor: str, key: tuple[str, str], old: dict[str, Any]) -> None:
        self.removed += 1
        if key[1] == "run":
            if old["dd_state"]["S"] == "live":
                self.fail(f"{actor} deleted a live run: {key[0]}")
            if not self._has_expired(old) and not self.world.lie_ms:  # when to remove is decided by time
                self.fail(f"{actor} deleted a run before its time: {key[0]}")
            # A caller that has not heard may put it again by now: then it lives once more, as without a cleaner.
            run_id = key[0].removeprefix("run#")
            self.ends[run_id, old["dd_gen"]["S"]] = 0
            self.recorded = {name: step for name, step in self.recorded.items() if not name.startswith(run_id)}
            self.fences.pop(run_id, None)
        if key[0].startswith("queue#"):
            self._on_mark_removal(actor, key, old)

    def _on_mark_removal(self, actor: str, key: tuple[str, str], old: dict[str, Any]) -> None:
        if "dd_gen" not in old:
            self.fail(f"{actor} deleted a self-contained mark: {key[1]}")
        early_ms = laws.milliseconds_too_early(old, now_ms=START_MS + self.world.now_ms)
        if "dd_token" in old and early_ms and not self.world.lie_ms:
            self.fail(f"{actor} deleted a mark that somebody holds: {key[1]}")
        parsed, run = parse_mark_sort_key(key[1]), self._run_of(key[1])
        if parsed is None or run is None or run["dd_state"]["S"] != "live" or run["dd_mark"]["S"] != key[1]:
            return
        # Before its caller was answered it may be condemned: the caller vouches first, and that puts the mark back.
        if self.accepted.get(parsed.run_id) == run["dd_gen"]["S"]:
            self.fail(f"{actor} deleted the mark of a live run: {key[1]}")

    def _on_letter(self, actor: str, key: tuple[str, str], old: dict[str, Any]) -> None:
        run = self._run_of(key[1])
        is_dead = run is not None and run["dd_state"]["S"] == "dead" and run["dd_gen"] == old["dd_gen"]
        if is_dead and not self._has_expired(old):
            self.fail(f"{actor} deleted the letter of a dead run: {key[1]}")

    def _has_expired(self, item: dict[str, Any]) -> bool:
        return "ttl" in item and int(item["ttl"]["N"]) * 1000 <= START_MS + self.world.now_ms

    def _run_of(self, sort_key: str) -> Raw:
        key = parse_mark_sort_key(sort_key)
        assert key is not None
        run_id = key.run_id
        return self.world.peek((f"run#{run_id}", "run"))


class CleaningCast(Cast):
    """The usual cast and two cleaners."""

    checks = CleaningChecker
    keep_result = timedelta(seconds=KEPT_SECONDS)
    keep_failed = timedelta(seconds=40)

    @staticmethod
    def surroundings() -> AbstractContextManager[Any]:
        return shortened()

    def processes(self) -> list[list[Steps]]:
        return [*super().processes(), *([self.cleaner(f"sweeper-{number}")] for number in range(2))]

    def cleaner(self, name: str) -> Steps:
        """Makes passes over the table, one after the other."""
        world = self.world
        operations = self.operations(world.clock())
        for _ in range(PASSES):
            yield from world.wait(world.one_of((1_000, 10_000, 60_000)))
            plans = CleanPlans(operations, CleanSettings(rate=20.0))
            try:
                report = yield from world.drive(name, plans.run(None, None, None))
            except DynadurableError as error:
                world.note(name, f"gave up: {error}")
                continue
            world.note(name, f"removed {dict(report.removed)}, put back {report.restored}, left {report.left}")


@contextmanager
def shortened() -> Iterator[None]:
    """Times to keep and margins of seconds, so that seeds see what happens past them."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(births, "ENDED_SECONDS", KEPT_SECONDS))
        stack.enter_context(mock.patch.object(leftovers, "MARGIN_MS", MARGIN_MS))
        stack.enter_context(mock.patch.object(leftovers, "SETTLED_MS", SETTLED_MS))
        yield
