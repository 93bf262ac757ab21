"""What must hold of workflows: what is recorded is recorded once, stays, and is never done again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynadurable.model import codec
from dynadurable.model.record import COMMIT, DONE, Identity, Record, unpack
from dynadurable.storage.items import Run
from dynadurable.storage.signals import ANYTHING, EVENT, sort_key, topic
from tests.simulation.checks import Checker, Raw
from tests.simulation.world import START_MS, World

Journal = dict[Identity, Record]


class WorkflowChecker(Checker):
    """Reads the journal of every run along with its writes."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.journals: dict[tuple[str, str], Journal] = {}
        """Outcomes that are recorded, by run and journal."""
        self._tails: dict[tuple[str, str], tuple[Record, ...]] = {}

    def on_write(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        super().on_write(actor, key, old, new)
        if key[0].startswith("run#") and key[1] == "run" and new is not None and "dd_wf" in new:
            self._on_journal(actor, key[0], old, new)
        if key[0].startswith("run#") and key[1].startswith("page#") and old is not None and new is not None:
            self._on_page(actor, key, old, new)

    def _on_page(self, actor: str, key: tuple[str, str], old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """The first signal wins, and what is sealed stays as it is."""
        if old.get("dd_body") != new.get("dd_body") and "#h#" not in key[1]:
            self.fail(f"{actor} changed the page {key[1]} of {key[0]}")

    def _on_journal(self, actor: str, pk: str, old: Raw, new: Mapping[str, Any]) -> None:
        place = (pk, journal_of(new))
        tail = unpack(new["dd_tail"]["B"]) if "dd_tail" in new else ()
        before, outcomes = self._tails.get(place, ()), self.journals.setdefault(place, {})
        if new["dd_state"]["S"] == "live" and before and tail[: len(before)] != before:
            self._check_sealed(actor, pk, new, before, tail)
        self._tails[place] = tail
        for record in tail:
            known = outcomes.get(record.identity) if record.is_end else None
            if known is not None and _said(known) != _said(record):
                self.fail(f"{actor} recorded {record.identity} of {pk} a second time")
            if record.is_end:
                outcomes[record.identity] = record

    def _check_sealed(
        self, actor: str, pk: str, new: Mapping[str, Any], before: tuple[Record, ...], tail: tuple[Record, ...]
    ) -> None:
        """What has left the tail lies in the page that the run names now."""
        page = self.world.peek((pk, new["dd_page"]["S"])) if "dd_page" in new else None
        sealed = unpack(page["dd_body"]["B"]) if page is not None else ()
        kept = {(record.identity, record.phase) for record in (*sealed, *tail)}
        lost = [record for record in before if record.is_end and (record.identity, record.phase) not in kept]
        if lost:
            self.fail(f"{actor} lost what was recorded of {pk}: {[str(record.identity) for record in lost]}")

    def _check_run_owner(self, actor: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        if "dd_waits" in old and "dd_waits" not in new and changed <= {"dd_mark", "dd_waits", "dd_rev"}:
            return  # whoever tells a run what it waits for wakes it
        super()._check_run_owner(actor, old, new)

    # --- told by the code -------------------------------------------------------------------------

    def step_runs(self, run: Run, kind: str, name: str) -> None:
        """The body of a step begins: its outcome must not be recorded."""
        place = (run.pk, run.journal_id)
        known = [identity for identity in self.journals.get(place, {}) if identity[1:3] == (kind, name)]
        if known:
            self.fail(f"{name} of {run.pk} runs again although it is recorded")

    def event_given(self, run: Run, name: str, value: Any) -> None:
        """The code was given an event: what was told first."""
        told = self.world.peek((run.pk, sort_key(run.journal_id, topic(EVENT, name))))
        if value is not None and (told is None or codec.decode(told["dd_body"]["B"]) != value):
            self.fail(f"{run.pk} was given {value} for {name}, not what was told first")

    def live_workflows(self) -> list[Run]:
        """The workflows that have not ended."""
        raws = [raw for raw in self.world.all_items() if raw["sk"]["S"] == "run" and "dd_wf" in raw]
        return [self.world.items.run.from_raw_data(dict(raw)) for raw in raws if raw["dd_state"]["S"] == "live"]

    def waiting(self) -> bool:
        """Whether some workflow waits for an event."""
        topics = [one for run in self.live_workflows() for one in run.waits or ()]
        return any(one.startswith("e#") or one == ANYTHING for one in topics)

    def strays_to_come(self) -> list[int]:
        """When marks come due that no live run names: of a parked run that has gone on, they lie there for a day."""
        named = {run.mark for run in self.live_workflows()}
        dues = [int(key[1][:15]) for key, mark in self.marks.items() if "dd_gen" in mark and key[1] not in named]
        return [due for due in dues if due > START_MS + self.world.now_ms]

    # --- at the end -------------------------------------------------------------------------------

    def at_the_end(self) -> None:
        super().at_the_end()
        for raw in self.world.all_items():
            if raw["pk"]["S"] == "users":
                self._check_commit(raw)

    def _check_commit(self, raw: Mapping[str, Any]) -> None:
        """A workflow's own write was done as often as its record says: once."""
        run_id, journal_id, _ = raw["sk"]["S"].rsplit(" ", 2)
        if int(raw["times"]["N"]) != 1:
            self.fail(f"a commit of {run_id} was done {raw['times']['N']} times")
        recorded = self.journals.get((f"run#{run_id}", journal_id), {})
        if not any(identity.kind == COMMIT and record.phase == DONE for identity, record in recorded.items()):
            self.fail(f"a commit of {run_id} was done and not recorded")


def _said(record: Record) -> tuple[int, bytes | None, str]:
    return record.phase, record.value, record.page


def journal_of(raw: Mapping[str, Any]) -> str:
    """The journal of a run item."""
    found: str = raw.get("dd_journal", raw["dd_gen"])["S"]
    return found
