"""What every part of a worker shares: the table, the clock, the drivers, the jobs, and who is being held."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from ..clock import Clock, UniqueIds
from ..drivers.aio import AioDriver
from ..drivers.boto3 import Boto3Driver
from ..drivers.loops import LoopDrivers
from ..log import careful_log
from ..model.queue import DEFAULT_SHARDS
from ..model.registry import Registry
from ..storage.items import Items
from ..storage.schedules import SCHEDULE_JOB
from .deployment import Deployment
from .heartbeat import Heartbeat
from .held import STOPPING, Held
from .keeper import Keeper
from .signals import Flag
from .timetable import Timetable

log = careful_log("dynadurable.worker")

DEFAULT_LEASE = timedelta(seconds=30)
DEFAULT_GRACE = timedelta(seconds=25)

Hook = Callable[[str, str, str], None]
"""Called with (event, job name, run id), for ``step`` with the step's name; see ``EVENTS``."""
EVENTS = (
    "claimed",
    "started",
    "step",
    "succeeded",
    "retrying",
    "snoozed",
    "parked",
    "dead",
    "cancelled",
    "handed back",
    "lost",
)


@dataclass(kw_only=True)
class Engine:
    """One worker's shared parts."""

    items: Items
    driver: Boto3Driver
    clock: Clock
    ids: UniqueIds
    registry: Registry
    worker_id: str
    loops: LoopDrivers
    build: str | None = None
    lease_seconds: float = DEFAULT_LEASE.total_seconds()
    hook: Hook | None = None
    dice: Callable[[], float] = random.random
    stopping: Flag = field(default_factory=Flag)
    shards_of: Callable[[str], int] = lambda _queue: DEFAULT_SHARDS
    look_again: Callable[[], None] = lambda: None
    """Have the worker look for work at once: there is some."""
    counts: dict[str, int] = field(default_factory=dict)
    heartbeat: Heartbeat = field(default_factory=lambda: Heartbeat(None))
    """Beats whenever the search for work gets on."""

    def __post_init__(self) -> None:
        self.keeper = Keeper(self.items, self.driver, self.clock)
        self.timetable = Timetable(
            items=self.items,
            clock=self.clock,
            ids=self.ids,
            registry=self.registry,
            shards_of=self.shards_of,
            build=self.build,
            look_again=lambda: self.look_again(),
        )
        self.deployment = Deployment(self.timetable)
        self._held: set[Held] = set()
        self._lock = threading.Lock()

    def knows(self, job: str) -> bool:
        """Whether marks of that job are for this worker."""
        return job == SCHEDULE_JOB or self.registry.get(job) is not None

    def hold(self, held: Held) -> None:
        """From now on it is renewed, and told when the worker stops."""
        with self._lock:
            self._held.add(held)
        self.keeper.keep(held)
        if self.stopping.is_set():
            held.tell(STOPPING)

    def release(self, held: Held) -> None:
        """The attempt has ended."""
        held.close()
        self.keeper.forget(held)
        with self._lock:
            self._held.discard(held)

    def holding(self) -> list[Held]:
        with self._lock:
            return list(self._held)

    def stop_claiming(self) -> None:
        """No new claims from here on; running bodies are told."""
        self.stopping.set()
        for held in self.holding():
            held.tell(STOPPING)

    async def loop_driver(self, *, worker_loop: bool = False) -> AioDriver:
        """The driver of the running loop; see ``LoopDrivers.get``."""
        return await self.loops.get(worker_loop=worker_loop)

    def lease_until_ms(self) -> int:
        """What a claim or renewal sent now writes: counted from the latest time it may be."""
        return self.clock.latest_ms() + round(self.lease_seconds * 1000)

    def tell(self, event: str, job: str, run_id: str) -> None:
        """Count an event and call the user's hook; what the hook raises is logged."""
        with self._lock:
            self.counts[event] = self.counts.get(event, 0) + 1
        if self.hook is None:
            return
        try:
            self.hook(event, job, run_id)
        except BaseException:  # also SystemExit: an attempt is half done, and a hook is not asked how to go on
            log.exception("the hook for %r raised", event)
