"""Whether every promise was kept, once nothing is due any more: read from the table, the stream and the bodies' log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from dynadurable import App
from dynadurable.errors import DynadurableError
from tests import laws
from tests.chaos import jobs
from tests.chaos.book import Book, Promise
from tests.chaos.callers import COUNT, RECEIPT
from tests.chaos.jobs import Site
from tests.chaos.watcher import EXPIRED, Problems, Watcher
from tests.terminal import misplaced_ttls

Line = dict[str, Any]


class Verdict:
    """Looks at everything once; what is wrong goes to ``problems``."""

    def __init__(
        self, app: App, site: Site, items: Sequence[laws.Raw], lines: list[Line], watcher: Watcher, problems: Problems
    ) -> None:
        self.app, self.site, self.items, self.watcher, self.problems = app, site, items, watcher, problems
        self.runs = laws.runs_in(items)
        self.lines = lines
        self.by_run: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            if "run" in line:
                self.by_run[line["run"]].append(line)

    def examine(self, book: Book) -> None:
        self._at_rest()
        self._receipts(book)
        for promise in book.accepted():
            for other in book.of(promise.run_id or ""):  # of one key: whoever cancels one of them cancels all
                promise.cancels = promise.cancels or other.cancels
            self._kept(promise)
        self._keys(book)
        for run_id in self.by_run:
            self._fences(run_id)
            self._overlaps(run_id)
            self._checkpoints(run_id)
        self._slots()

    # --- the table --------------------------------------------------------------------------------

    def _at_rest(self) -> None:
        for mark in laws.marks_in(self.items):
            self.problems.add(_run_of(mark), f"a mark was left: {mark}")
        for run_id in laws.live_without_mark(self.items):
            self.problems.add(run_id, f"live, and without a mark: {self.runs[run_id]}")
        letters, dead = laws.letters_in(self.items), laws.dead_in(self.items)
        for run_id, life in dead - letters:
            self.problems.add(run_id, f"life {life} is dead, and has no letter")
        for run_id, life in letters - dead:
            self.problems.add(run_id, f"a letter of life {life}, which is not dead")
        for wrong in misplaced_ttls(self.items):
            self.problems.add(None, wrong)

    def _receipts(self, book: Book) -> None:
        """A transaction that nobody knows the end of was done as a whole or not at all."""
        receipts = {item["run"]["S"] for item in self.items if item["pk"]["S"].startswith(RECEIPT)}
        for run_id in receipts:
            if not book.of(run_id):
                self._kept(Promise(kind="transacted", number=0, run_id=run_id))
        for promise in book.accepted():
            if promise.kind == "transacted" and promise.run_id not in receipts:
                self.problems.add(promise.run_id, "accepted in a transaction that was not done")

    # --- each run ---------------------------------------------------------------------------------

    def _kept(self, promise: Promise) -> None:
        """It has come to the end that it must come to, with the right effects."""
        run_id = promise.run_id
        assert run_id is not None
        run = self.runs.get(run_id)
        state = "gone" if run is None else run["dd_state"]["S"]
        ended = any(line["event"] == "end" for line in self.by_run[run_id])
        if state == "cancelled":
            if not promise.cancels:
                self.problems.add(run_id, "cancelled, though nobody asked for it")
            return
        if "cancelled" in promise.cancels and not promise.replays and promise.key is None:
            self.problems.add(run_id, f"an operator was told that it is cancelled, but it is {state}")
        must = self._must_be(promise)
        if state not in must:
            self.problems.add(run_id, f"a {promise.kind} must be {' or '.join(sorted(must))}, but is {state}: {run}")
        elif state == "gone" and not ended:
            self.problems.add(run_id, f"lost: a {promise.kind} that is gone, and whose body never came to its end")
        elif state == "succeeded":
            self._result(promise, ended)
        if state != "dead" and promise.kind == "deliver":
            self._delivered(promise)

    def _must_be(self, promise: Promise) -> set[str]:
        if promise.kind == "weak":
            return {"dead"}
        if promise.kind == "poison":
            cured = self.site.cure(promise.number).exists()
            return {"dead", "succeeded", "gone"} if cured else {"dead"}
        return {"succeeded"} if promise.kind in ("sure", "order", "order_async") else {"succeeded", "gone"}

    def _result(self, promise: Promise, ended: bool) -> None:
        assert promise.run_id is not None
        wanted: dict[str, Any] = {
            "sure": jobs.sure_result(promise.number),
            "order": jobs.order_result(promise.number),
            "order_async": jobs.order_result(promise.number),
        }
        if promise.kind in wanted:
            got = self.app.run(promise.run_id).result()
            if got != wanted[promise.kind]:
                self.problems.add(promise.run_id, f"gave {got!r} instead of {wanted[promise.kind]!r}")
        elif not ended:
            self.problems.add(promise.run_id, "succeeded, but its body never came to its end")
        if promise.kind.startswith("order"):
            self._steps(promise.run_id)

    def _delivered(self, promise: Promise) -> None:
        got = {item["pk"]["S"] for item in self.items if item["sk"]["S"] == f"post@{promise.number:06d}"}
        if len(got) != jobs.FOLLOWERS:
            self.problems.add(promise.run_id, f"{len(got)} of {jobs.FOLLOWERS} followers got the post")

    def _steps(self, run_id: str) -> None:
        """Each step is recorded once, and what was recorded was not begun again by anybody who could know it."""
        try:
            events = self.app.workflows.timeline(run_id)
        except DynadurableError as error:
            self.problems.add(run_id, f"its timeline cannot be read: {error}")
            return
        names = [event.label for event in events if event.kind == "step"]
        if len(names) != len(set(names)) or len(names) != 2 + jobs.PACKED:
            self.problems.add(run_id, f"steps were recorded more or less than once: {names}")
        bodies = [line for line in self.by_run[run_id] if line["event"] == "body"]
        packed = [line["fence"] for line in bodies if line["name"].startswith("pack")]
        shipped = [line["fence"] for line in bodies if line["name"] == "ship"]
        for line in bodies:  # a step that came before was recorded before: a later claim knows that
            later = {"charge": packed + shipped}.get(line["name"], shipped if line["name"] != "ship" else [])
            if any(fence < line["fence"] for fence in later):
                self.problems.add(run_id, f"{line['name']} was done again after it was recorded: {bodies}")
                return

    # --- what bodies did --------------------------------------------------------------------------

    def _fences(self, run_id: str) -> None:
        """A claim has one body. Only a mark that was put twice (a request sent again) gives a fence twice."""
        starts = [line["fence"] for line in self.by_run[run_id] if line["event"] == "start"]
        lives = max(1, self.watcher.births[run_id])
        for fence in set(starts):
            if starts.count(fence) > lives:
                self.problems.add(run_id, f"{starts.count(fence)} bodies began under fence {fence}")

    def _overlaps(self, run_id: str) -> None:
        """A body that goes on after the next one began lost its lease before: by the time, not by anybody's word."""
        if self.watcher.births[run_id] > 1:
            return
        last: dict[int, float] = {}
        begun: dict[int, float] = {}
        for line in self.by_run[run_id]:
            if "fence" in line and line["event"] != "wrote":
                last[line["fence"]] = max(line["at"], last.get(line["fence"], 0.0))
                begun.setdefault(line["fence"], line["at"])
        claims = self.watcher.claims.get(run_id, {})
        for fence, ended_at in last.items():
            overtaken = [other for other, at in begun.items() if other > fence and at < ended_at]
            following = min((other for other in claims if other > fence), default=None)
            if overtaken and following is not None and claims[following] != EXPIRED:
                self.problems.add(run_id, f"bodies of fences {fence} and {min(overtaken)} overlap without a lost lease")

    def _checkpoints(self, run_id: str) -> None:
        """Whoever comes later begins at least where the last one recorded that it was."""
        steps = [line for line in self.by_run[run_id] if line["event"] == "step"]
        if not steps or self.watcher.births[run_id] > 1:
            return
        for start in self.by_run[run_id]:
            if start["event"] == "start":
                recorded = max((line["step"] for line in steps if line["fence"] < start["fence"]), default=0)
                if (start["cursor"] or 0) < recorded:
                    self.problems.add(run_id, f"began at {start['cursor']}, though {recorded} was recorded")
        if max(line["step"] for line in steps) > COUNT:
            self.problems.add(run_id, "counted too far")

    # --- keys and slots ---------------------------------------------------------------------------

    def _keys(self, book: Book) -> None:
        """A key has at most as many lives as it was asked for, and with ``unique_for`` one."""
        asked: dict[str, list[Promise]] = defaultdict(list)
        for promise in book.accepted():
            if promise.key is not None and promise.run_id is not None:
                asked[promise.run_id].append(promise)
        unknown = {promise.key for promise in book.all() if promise.key is not None and promise.run_id is None}
        for run_id, promises in asked.items():
            lives = len(self.watcher.lives[run_id])
            if promises[0].unique and lives != 1:
                self.problems.add(run_id, f"a key that stays taken had {lives} lives")
            if promises[0].key not in unknown and lives > len(promises):
                self.problems.add(run_id, f"asked for {len(promises)} times, lived {lives} times")

    def _slots(self) -> None:
        """Every slot from the first to the last has one run, and that has run."""
        ticks = [line for line in self.lines if line["event"] == "tick"]
        by_slot: dict[datetime, set[str]] = defaultdict(set)
        for line in ticks:
            by_slot[datetime.fromisoformat(line["slot"])].add(line["run"])
        if not by_slot:
            return  # on a slow machine it may end before the first worker is up
        for slot, run_ids in by_slot.items():
            if len(run_ids) != 1:
                self.problems.add(None, f"slot {slot} had the runs {sorted(run_ids)}")
        slots = sorted(by_slot)
        wanted = [slots[0] + place * jobs.TICK for place in range(len(slots))]
        if slots != wanted:
            self.problems.add(None, f"slots were left out: {sorted({*wanted} - {*slots})}")
        if datetime.fromisoformat(self.site.until) - slots[-1] >= jobs.TICK:
            self.problems.add(None, f"the last slot is {slots[-1]}, though the schedule ends at {self.site.until}")


def _run_of(mark: laws.Raw) -> str:
    return str(mark["sk"]["S"].rpartition("#")[2])


def history(run_id: str, lines: Iterable[Line]) -> list[str]:
    """All that is known of one run, in order: writes, faults, what its bodies and operators did."""
    found = [line for line in lines if run_id in line.get("key", "") or line.get("run") == run_id or _in(run_id, line)]
    found.sort(key=lambda line: float(line.get("wrote_at") or line["at"]))
    return [_told(line) for line in found]


def _in(run_id: str, line: Line) -> bool:
    return line["event"] in ("fault", "deed") and any(run_id in key for key in line.get("keys", [run_id]))


def _told(line: Line) -> str:
    at = float(line.get("wrote_at") or line["at"])
    rest = {name: value for name, value in line.items() if name not in ("at", "wrote_at", "event", "keys")}
    return f"{at:10.3f}  {line['event']:7}  " + "  ".join(f"{name}={value}" for name, value in rest.items())
