"""A cast with schedules: workers tick them, operators pause, resume and trigger them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from unittest import mock

from dynadurable.clock import to_datetime
from dynadurable.control.schedules import SchedulePlans, make_schedule
from dynadurable.errors import DynadurableError
from dynadurable.model.timing import Timing
from dynadurable.storage.keys import keyed_run_id, schedules_partition
from dynadurable.storage.schedules import from_owed
from dynadurable.worker import deployment
from dynadurable.worker.engine import Engine
from dynadurable.worker.timetable import definition_of
from tests.simulation.actors import Cast
from tests.simulation.checks import Checker, Raw
from tests.simulation.world import START_MS, Steps, World

EVERY = timedelta(seconds=15)
SLOTS = 8
POLICIES: tuple[dict[str, Any], ...] = (
    {"catch_up": "all"},
    {"catch_up": "latest"},
    {"catch_up": "all", "overlap": "skip"},
    {"catch_up": "all", "overlap": "queue"},
)
OVERDUE_MS = 20_000


class ScheduleChecker(Checker):
    """Every slot is dealt with once: it gets its one run, or is skipped on purpose."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.owed: set[str] = set()
        """The runs of slots that a schedule has said are to be."""
        self.started: Counter[str] = Counter()
        self.partition = schedules_partition(world.items.schema)

    def on_write(self, actor: str, key: tuple[str, str], old: Raw, new: Raw) -> None:
        super().on_write(actor, key, old, new)
        if key[0] == self.partition and new is not None:
            self._on_schedule(actor, old or {}, new)
        if key[1] == "run" and new is not None and "dd_slot" in new and "dd_key" in new:
            self._on_slot(actor, key[0][4:], old, new)

    def _check_owner(self, actor: str, key: tuple[str, str], old: dict[str, Any], new: Raw) -> None:
        if old.get("dd_job", {}).get("S") != "!schedule":
            super()._check_owner(actor, key, old, new)

    def _on_schedule(self, actor: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        record = self.world.items.schedule.from_raw_data(dict(new))
        schedule = definition_of(record)
        slots = from_owed(record.owed)
        owed = {keyed_run_id(schedule.job, schedule.key_of(slot)) for slot in slots}
        if old.get("dd_owed") != new.get("dd_owed"):
            again = owed & self.owed
            if again:
                self.fail(f"{actor} owes a slot of {record.sk} again: {again}")
        self.owed |= owed
        if old and int(new["dd_done"]["N"]) < int(old["dd_done"]["N"]):
            self.fail(f"{actor} took the schedule {record.sk} back")
        if old and "dd_paused" not in old and schedule.timing.overlap == "allow" and schedule.timing.catch_up == "all":
            since, until = to_datetime(int(old["dd_done"]["N"])), to_datetime(int(new["dd_done"]["N"]))
            passed = schedule.timing.next_after(since)
            while passed is not None and passed <= until:
                if keyed_run_id(schedule.job, schedule.key_of(passed)) not in self.owed:
                    self.fail(f"{actor} passed over the slot {passed} of {record.sk}")
                passed = schedule.timing.next_after(passed)

    def _on_slot(self, actor: str, run_id: str, old: Raw, new: dict[str, Any]) -> None:
        if old is not None and old["dd_gen"] == new["dd_gen"]:
            return
        if old is not None and new["dd_rev"]["N"] != "0":
            return  # it was brought back from the dead
        self.started[run_id] += 1
        if self.started[run_id] > 1:
            self.fail(f"{actor} started the run {run_id} of a slot a second time")
        if run_id not in self.owed:
            self.fail(f"{actor} started the run {run_id} of a slot that no schedule owes")

    def at_the_end(self) -> None:
        missing = [run_id for run_id in self.owed if not self.started[run_id]]
        if missing:
            self.fail(f"slots without their run: {missing}")
        super().at_the_end()
        if self.going_on():
            self.fail(f"schedules stand still: {self.going_on()}")

    def going_on(self) -> list[dict[str, Any]]:
        """Schedules with slots to come."""
        return [raw for raw in self.world.all_items() if raw["pk"]["S"] == self.partition and "dd_mark" in raw]


class ScheduleCast(Cast):
    """The usual cast, whose workers also know two schedules."""

    checks = ScheduleChecker

    @staticmethod
    def surroundings() -> Any:
        return mock.patch.object(deployment, "OVERDUE_MS", OVERDUE_MS)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        assert isinstance(self.checker, ScheduleChecker)
        self.slots: ScheduleChecker = self.checker
        start, end = to_datetime(START_MS), to_datetime(START_MS) + SLOTS * EVERY
        for name, job in (("first", self.plain), ("second", self.kept)):
            policies = world.one_of(POLICIES)
            timing = Timing.of(None, EVERY, "UTC", start=start, end=end, **policies)
            schedule = make_schedule(name, timing, job, arguments={"number": 1}, queue=None)
            self.registry.add_schedule(schedule, job.function)

    def processes(self) -> list[list[Steps]]:
        dice = self.world.dice
        processes = [self.worker(f"worker-{n}", dice.randint(15, 40)) for n in range(3)]
        processes += [[self.enqueuer(f"caller-{n}")] for n in range(dice.randint(0, 2))]
        processes += [[self.operator(f"operator-{n}")] for n in range(dice.choice((0, 1)))]
        processes += [[self.timekeeper(f"timekeeper-{n}")] for n in range(dice.choice((0, 1, 2)))]
        return processes

    def helpers(self, name: str, engine: Engine) -> list[Steps]:
        return [self._deploying(name, engine)]

    def _deploying(self, name: str, engine: Engine) -> Steps:
        world = self.world
        while True:
            try:
                yield from world.drive(name, engine.deployment.look())
            except DynadurableError as error:
                world.note(name, f"could not look after its schedules: {error}")
            yield from world.wait(10_000)

    def timekeeper(self, name: str) -> Steps:
        """An operator of schedules."""
        world = self.world
        plans = SchedulePlans(self.operations(world.clock()))
        for _ in range(3):
            yield from world.wait(world.one_of((1_000, 5_000, 20_000)))
            deed = world.one_of((plans.pause, plans.resume, plans.trigger, plans.resume))
            schedule = world.one_of(("first", "second"))
            world.note(name, f"{deed.__name__} {schedule}")
            try:
                yield from world.drive(name, deed(schedule))
            except DynadurableError as error:
                world.note(name, f"could not: {error}")

    def last_words(self) -> list[Steps]:
        return [*super().last_words(), self._resume_all()]

    def _resume_all(self) -> Steps:
        plans = SchedulePlans(self.operations(self.world.clock()))
        for name in ("first", "second"):
            if self.world.peek((self.slots.partition, name)) is not None:
                yield from self.world.drive("timekeeper", plans.resume(name))

    def is_over(self) -> bool:
        """The last slots are over too."""
        return super().is_over() and not self.slots.going_on()
