"""What must hold after every write, and at the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dynadurable.storage.keys import SETTINGS_SORT_KEY, parse_mark_sort_key
from dynadurable.storage.schedules import SCHEDULE_JOB
from tests import laws
from tests.simulation.world import START_MS, CheckFailedError, World

MAX_ATTEMPTS = 4
MAX_ERROR_MS = 1_000
"""What clocks say of themselves at most."""
SOON_MS = 4_000
"""A holder counts its lease as over that much before it is, at most, by its clock's error and its keeper's pace."""
Raw = dict[str, Any] | None


class Checker:
    """Watches every write of a world, and knows what was promised to whom."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.accepted: dict[str, str | None] = {}
        """Run ids that an enqueuer was told of, with the life it was told of (``None``: self-contained then)."""
        self.plain_ends: Counter[str] = Counter()
        self.ends: Counter[tuple[str, str]] = Counter()
        self.recorded: dict[str, int] = {}
        """The last checkpoint that a body was told is recorded, by run and life."""
        self.starts: Counter[str] = Counter()
        self.fences: dict[str, int] = {}
        self.marks: dict[tuple[str, str], dict[str, Any]] = {}
        """The marks that lie in the table, in the order in which they came."""
        self.owners: dict[str, str] = {}
        """Which process made a claim, by the claim's token."""
        self.claimers: dict[str, set[str]] = {}
        """Which processes ever held a mark, by its sort key."""
        self.cancelling: set[tuple[str, str | None]] = set()
        """Runs whose cancellation an operator was told is on its way, with the life they had."""
        self.echoed: set[str] = set()
        """Runs whose self-contained mark an enqueuer has put once more after it was gone."""
        self.purged: set[str] = set()
        """Runs that an operator may have purged."""
        self._gone: set[tuple[str, str]] = set()
        world.watchers.append(self.on_write)

    def fail(self, why: str) -> None:
        error = CheckFailedError(f"seed {self.world.seed}: {why}")
        self.world.broken = self.world.broken or error
        raise error

    # --- after every write ------------------------------------------------------------------------

    def on_write(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        if new is not None and "dd_v" not in new and not key[0].startswith("users"):
            self.fail(f"{actor} planted a ghost: {new}")
        if key[0].startswith("queue#") and key[1] != SETTINGS_SORT_KEY:
            self._on_mark(actor, key, old, new)
        elif key[0].startswith("run#") and key[1] == "run":
            self._on_run(actor, key, old, new)

    def _on_mark(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        if new is None:
            self.marks.pop(key, None)
        else:
            self.marks[key] = new
        if old is None and new is not None:
            own_retry = actor.startswith("caller")  # its reply was lost: nothing can tell that the run has ended since
            again = key in self._gone and "dd_gen" not in new and new["dd_job"]["S"] != SCHEDULE_JOB
            if again:
                self.echoed.add(key[1].rpartition("#")[2])
            if again and not own_retry:
                self.fail(f"{actor} brought a finished self-contained mark back: {key[1]}")
        if old is not None and new is None:
            self._gone.add(key)
        if old is not None:
            self._check_owner(actor, key, old, new)
        if actor.endswith("'s keeper") and laws.number(old or {}, "dd_lease") > laws.number(new or {}, "dd_lease"):
            self.fail(f"{actor} shortened the lease on {key[1]}")
        for why in laws.wrong_with_mark(old, new):
            self.fail(f"{actor}, mark {key[1]}: {why}")
        if old is not None and new is not None and laws.is_claim(old, new):
            self._on_claim(actor, key, old, new)

    def _on_claim(self, actor: str, key: tuple[str, str], old: dict[str, Any], new: dict[str, Any]) -> None:
        """A lease is taken over only after its end, by the store's own time."""
        self.owners[new["dd_token"]["S"]] = _process(actor)
        self.claimers.setdefault(key[1], set()).add(_process(actor))
        early_ms = laws.milliseconds_too_early(old, now_ms=START_MS + self.world.now_ms)
        ahead_ms = int(key[1][:15]) - START_MS - self.world.now_ms
        if actor.startswith("worker") and ahead_ms > MAX_ERROR_MS + self.world.lie_ms:
            self.fail(f"{actor} began {key[1]} {ahead_ms} ms before it was due")
        if early_ms and not self.world.lie_ms:  # when to try is decided by time: of clocks that lie nothing is promised
            self.fail(f"{actor} took {key[1]} {early_ms} ms before its lease ended")

    def _check_owner(self, actor: str, key: tuple[str, str], old: dict[str, Any], new: Raw) -> None:
        """Only the process that holds a mark changes or deletes it; an enqueuer may forget its own, or vouch."""
        token = old.get("dd_token", {}).get("S")
        if token is None or _process(actor).startswith("caller") or self.owners.get(token) == _process(actor):
            return
        changed = {name for name in {*old, *(new or {})} if old.get(name) != (new or {}).get(name)}
        claimed = new is not None and "dd_token" in changed and "dd_token" in new
        if claimed or (new is not None and changed <= {"dd_cancel", "dd_vouched"}):
            return  # a claim of its own, or a wish noted for the holder
        if new is None and self._is_forgotten(key, old):
            return
        self.fail(f"{actor} changed {changed or 'nothing'} of {key[1]}, which {self.owners.get(token)} holds")

    def _is_forgotten(self, key: tuple[str, str], old: dict[str, Any]) -> bool:
        """Whether the mark is one of a start that came too late: its run is of another life."""
        parsed = parse_mark_sort_key(key[1])
        run = None if parsed is None else self.world.peek((f"run#{parsed.run_id}", "run"))
        return "dd_gen" in old and run is not None and run["dd_gen"] != old["dd_gen"]

    def _check_run_owner(self, actor: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Only who claimed the mark which a live run names changes it, until the next one raises the fence."""
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        if old["dd_state"]["S"] != "live" or changed <= {"dd_cancel", "dd_rev"}:
            return
        sort_key, process = old["dd_mark"]["S"], _process(actor)
        if process not in self.claimers.get(sort_key, set()):
            self.fail(f"{actor} changed {changed} of a run whose mark {sort_key} it never held")
        named = [mark for key, mark in self.marks.items() if key[1] == sort_key]
        token = named[0].get("dd_token", {}).get("S") if named else None
        raised = bool(named) and laws.number(old, "dd_fence") >= laws.number(named[0], "dd_fence")
        if token is not None and raised and self.owners.get(token) != process:
            self.fail(f"{actor} changed {changed} of a run whose mark {self.owners.get(token)} holds")

    def _on_run(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        if old is not None and new is None and actor.startswith("operator") and old["dd_state"]["S"] == "dead":
            self.purged.add(key[0][4:])
            return
        if old is not None and new is not None:
            self._check_run_owner(actor, old, new)
            self._check_key(actor, key, old, new)
            self._check_wish(actor, key, old, new)
        for why in laws.wrong_with_run(old, new):
            self.fail(f"{actor}, run {key[0]}: {why}")
        if new is not None and laws.ends_a_life(old, new):
            self.ends[key[0][4:], new["dd_gen"]["S"]] += 1

    def _check_key(self, actor: str, key: tuple[str, str], old: dict[str, Any], new: dict[str, Any]) -> None:
        """A key that is to stay taken for a while, also after its run has ended, is not taken before."""
        anew = old["dd_gen"] != new["dd_gen"] and new["dd_rev"]["N"] == "0"
        early_ms = laws.number(old, "dd_unique") - START_MS - self.world.now_ms
        if anew and early_ms > 2 * MAX_ERROR_MS and not self.world.lie_ms:
            self.fail(f"{actor} took the key of {key[0]} {early_ms} ms before it was free")

    def _check_wish(self, actor: str, key: tuple[str, str], old: dict[str, Any], new: dict[str, Any]) -> None:
        """A run that is to be cancelled does not die, and is not put off, unless there is something to undo."""
        if "dd_cancel" not in old or old["dd_gen"] != new["dd_gen"] or "dd_undo" in new:
            return
        if new["dd_state"]["S"] == "dead":
            self.fail(f"{actor} let {key[0]} die although it was to be cancelled")
        is_woken = "dd_waits" in old and "dd_waits" not in new
        if new["dd_state"]["S"] == "live" and new["dd_mark"] != old["dd_mark"] and not is_woken:
            self.fail(f"{actor} put {key[0]} off although it was to be cancelled")

    # --- told by actors ---------------------------------------------------------------------------

    def told_cancelling(self, run_id: str, life: str | None) -> None:
        """An operator was told that the worker of the run, in that life, is asked to end it."""
        if life is not None or "@" not in run_id:
            self.cancelling.add((run_id, life))

    def held_runs(self) -> list[str]:
        """The runs whose marks somebody holds."""
        keys = [parse_mark_sort_key(key[1]) for key, mark in self.marks.items() if "dd_token" in mark]
        return sorted({key.run_id for key in keys if key is not None})

    def _life_of(self, run_id: str) -> str | None:
        run = self.world.peek((f"run#{run_id}", "run"))
        return None if run is None or run["dd_state"]["S"] != "live" else run["dd_gen"]["S"]

    def attempt_ended(self, process: str, token: str, event: str | None, *, told_lost: bool) -> None:
        """A worker that took a claim for somebody else's, or for lost, must not have it, unless its clock says so."""
        if event not in (None, "lost") or told_lost:
            return
        soon_ms = START_MS + self.world.now_ms + SOON_MS
        for key, mark in self.marks.items():
            if mark.get("dd_token", {}).get("S") != token:
                continue
            if event is None:
                self.fail(f"{process} took its own claim of {key[1]} for somebody else's")
            if "dd_gen" not in mark and "dd_cancel" not in mark and laws.number(mark, "dd_lease") > soon_ms:
                self.fail(f"{process} took {key[1]} for lost, and holds it")

    def told_accepted(self, run_id: str) -> None:
        """An enqueuer got its answer; from now on that run must reach an end."""
        run = self.world.peek((f"run#{run_id}", "run"))
        self.accepted[run_id] = None if run is None else run["dd_gen"]["S"]

    def body_starts(self, run_id: str, life: str, fence: int, cursor: int | None) -> None:
        name = f"{run_id} {life}"
        if (cursor or 0) < self.recorded.get(name, 0) and not self._is_second_life(run_id):
            self.fail(f"a recorded checkpoint of {run_id} was lost: {cursor} after {self.recorded[name]}")
        if fence <= self.fences.get(run_id, -1) and not self._is_second_life(run_id):
            self.fail(f"the fence of {run_id} did not grow: {fence} after {self.fences[run_id]}")
        self.fences[run_id] = fence
        self.starts[name] += 1
        if {(run_id, self._life_of(run_id)), (run_id, None)} & self.cancelling and not self._is_second_life(run_id):
            self.fail(f"{run_id} began again although its cancellation was on its way")

    def _is_second_life(self, run_id: str) -> bool:
        """Whether an enqueuer's retry has put the self-contained mark of a finished run again."""
        return run_id in self.echoed

    def checkpoint_recorded(self, run_id: str, life: str, fence: int, cursor: int) -> None:
        name = f"{run_id} {life}"
        if fence < self.fences.get(run_id, -1) and not self._is_second_life(run_id):
            self.fail(f"a stale holder recorded a checkpoint of {run_id} (fence {fence} < {self.fences[run_id]})")
        self.recorded[name] = max(cursor, self.recorded.get(name, 0))

    def attempt_used(self, run_id: str, life: str, attempt: int) -> None:
        if attempt > MAX_ATTEMPTS:
            self.fail(f"{run_id} began attempt {attempt} of {MAX_ATTEMPTS}")

    # --- at the end -------------------------------------------------------------------------------

    def at_the_end(self) -> None:
        """Faults have stopped and workers have worked until nothing was due: everything accepted has ended."""
        items = self.world.all_items()
        marks, runs = laws.marks_in(items), laws.runs_in(items)
        now_ms = START_MS + self.world.now_ms
        if marks:
            due = [(parse_mark_sort_key(mark["sk"]["S"]), mark) for mark in marks]
            self.fail(f"marks were left at {now_ms}: {due[:2]}")
        for run_id, life in self.accepted.items():
            run = runs.get(run_id)
            if run is None and life is not None and not self.may_be_gone(run_id, life):
                self.fail(f"the accepted run {run_id} vanished")
            if run is not None and run["dd_state"]["S"] == "live":
                self.fail(f"the accepted run {run_id} never ended: {run}")
        for run_id in laws.live_without_mark(items):
            self.fail(f"run {run_id} is live and has no mark: {runs[run_id]}")
        for (run_id, life), count in self.ends.items():
            if count > 1:
                self.fail(f"life {life} of {run_id} ended {count} times")
        self._letters(items, runs)

    def may_be_gone(self, run_id: str, life: str) -> bool:
        """Whether nothing need be left of that run."""
        return run_id in self.purged

    def _letters(self, items: list[dict[str, Any]], runs: dict[str, dict[str, Any]]) -> None:
        letters = laws.letters_in(items)
        dead = {(run_id, run["dd_gen"]["S"]) for run_id, run in runs.items() if run["dd_state"]["S"] == "dead"}
        if not dead <= letters:
            self.fail(f"dead runs without a letter: {dead - letters}")


def _process(actor: str) -> str:
    """The process that an actor belongs to."""
    return actor.removesuffix("'s keeper")
