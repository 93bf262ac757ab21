"""Examines a table and what is in it: the plans, and the two shells over them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from .. import clock as clocks
from ..clock import to_datetime
from ..errors import (
    ConfigurationError,
    DynadurableError,
    ItemUnreadableError,
    PermissionMissingError,
    StoreError,
    TableMissingError,
)
from ..model.finding import NOTE, OK, PROBLEM, WARNING, Examination, Finding
from ..model.moments import relative
from ..operations import Operations
from ..storage import cleaning, dead, disagreements, probes, queues, shape, table, workers
from ..storage.items import FORMAT_VERSION
from ..storage.keys import check_name
from ..storage.permissions import Kind, Role
from .cleaning import DEFAULT_READ_RATE
from .runs import known_queues
from .steppers import AioStepper, Stepper

REACH, CLOCK, PERMISSIONS, FORMAT = "reach", "clock", "permissions", "format"
MARKS, LETTERS, WORKERS, CLEANER, STORE = "marks", "dead letters", "workers", "cleaner", "store"
LOOK_LIMIT = 10_000
"""Of each shard of a queue at most so many marks and dead letters are looked at."""
NAMED = 3
Check = Callable[[], Coroutine[Any, Any, list[Finding]]]
CLOCK_NOTE_MS, CLOCK_WARNING_MS = 2_000, 60_000
CLEANING_LATE_MS = 3 * 86_400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is to be examined. ``roles``: those that this process must have; others are only told of."""

    queues: Sequence[str] = ()
    repair: bool = False
    roles: Sequence[Role] = ()


class DoctorPlans:
    """What can be examined."""

    def __init__(self, operations: Operations, *, machine_ms: Callable[[], int] = clocks.machine_ms) -> None:
        self._operations = operations
        self._items = operations.items
        self._clock = operations.clock
        self._machine_ms = machine_ms

    async def table(self) -> Examination:
        """How the table fits, and what living in it costs.

        Raises:
            TableMissingError, PermissionMissingError, StoreError: it cannot be described.
        """
        described = await table.describe(self._items)
        ttl = await table.describe_ttl(self._items)
        return Examination(
            findings=shape.examine(self._items, described["Table"], ttl=ttl, read_rate=DEFAULT_READ_RATE)
        )

    async def examine(self, asked: Asked) -> Examination:
        """Everything. What cannot be looked at for lack of a permission is a finding, too."""
        reach = await self._reach()
        findings = list(reach)
        if any(one.level == PROBLEM for one in reach):
            return Examination(findings=findings)
        checks: dict[str, Check] = {
            shape.KEYS: self._shape,
            PERMISSIONS: lambda: self._permissions(asked.roles),
            MARKS: lambda: self._contents(asked),
            CLEANER: self._cleaner,
        }
        for name, check in checks.items():
            findings += await _guarded(name, check)
        return Examination(findings=findings)

    # --- the table --------------------------------------------------------------------------------

    async def _reach(self) -> list[Finding]:
        """Whether the table answers, and how far the machine's clock is from DynamoDB's."""
        clock, began = self._clock, self._clock.monotonic()
        call = probes.request(self._items, ("GetItem", Kind.QUEUE))
        try:
            reply = await call
        except (ConfigurationError, StoreError) as error:
            return [_unreachable(error)]
        milliseconds = (clock.monotonic() - began) * 1000
        name = self._items.schema.table
        text = f"Table {name!r} answers, in {milliseconds:.0f} ms."
        headers = reply.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        return [Finding(check=REACH, level=OK, text=text), self._skew(headers.get("date"))]

    def _skew(self, date: str | None) -> Finding:
        server_ms = clocks.http_date_ms(date) if date else None
        if server_ms is None:
            return Finding(check=CLOCK, level=NOTE, text="The reply tells no time, so the clock cannot be compared.")
        off_ms = self._machine_ms() - (server_ms + 500)  # the header leaves out the fraction of a second
        seconds = f"{abs(off_ms) / 1000:.0f} s {'ahead' if off_ms > 0 else 'behind'}"
        if abs(off_ms) < CLOCK_NOTE_MS:
            return Finding(check=CLOCK, level=OK, text="This machine's clock agrees with DynamoDB's.")
        level = WARNING if abs(off_ms) >= CLOCK_WARNING_MS else NOTE
        text = f"This machine's clock is {seconds}. Leases go by DynamoDB's time, so nothing is lost by that."
        return Finding(
            check=CLOCK, level=level, text=text, remedy="Have it set by NTP: AWS refuses requests 5 minutes off."
        )

    async def _shape(self) -> list[Finding]:
        return list((await self.table()).findings)

    async def _permissions(self, wanted: Sequence[Role]) -> list[Finding]:
        """What this process may do, by harmless requests."""
        grants = list(dict.fromkeys(grant for role in Role for grant in probes.grants_of(role)))
        allowed = {grant for grant in grants if await probes.is_allowed(self._items, grant)}
        missing = {role: [grant for grant in probes.grants_of(role) if grant not in allowed] for role in Role}
        findings = [_permission(role, missing[role], is_wanted=role in wanted) for role in Role]
        if all(missing.values()):
            text = "This process has no complete grant: not for enqueueing, working, observing, replaying or cleaning."
            findings.append(
                Finding(check=PERMISSIONS, level=WARNING, text=text, remedy="Use the grants of the CDK table.")
            )
        return findings

    # --- what is in it ----------------------------------------------------------------------------

    async def _contents(self, asked: Asked) -> list[Finding]:
        operations = self._operations
        names = [check_name("a queue's name", name) for name in asked.queues] or await known_queues(operations)
        if not names:
            text = "No queue is known: no job is defined here and no live worker was seen."
            return [Finding(check=MARKS, level=NOTE, text=text, remedy="Name a queue, or the app that defines jobs.")]
        live = await workers.live(self._items, now_ms=self._clock.now_ms())
        served = {str(queue) for worker in live for queue in worker.queues}
        findings: list[Finding] = []
        newer = 0
        for name in names:
            found = await disagreements.look(self._items, name, now_ms=self._clock.earliest_ms(), limit=LOOK_LIMIT)
            newer += found.newer
            findings += [
                await self._odd_marks(name, found, repair=asked.repair),
                await self._stray_letters(name, found, repair=asked.repair),
                *await self._unserved(name, served),
            ]
        return [*findings, _format(newer)]

    async def _odd_marks(self, queue: str, found: disagreements.Looked, *, repair: bool) -> Finding:
        if not found.odd:
            more = f" (the first {LOOK_LIMIT:,} of each shard)" if found.more else ""
            return Finding(check=MARKS, level=OK, text=f"Marks and runs of queue {queue!r} agree{more}.")
        named = ", ".join(f"{one.run_id} ({one.how})" for one in found.odd[:NAMED])
        rest = f" and {len(found.odd) - NAMED} more" if len(found.odd) > NAMED else ""
        finding = Finding(
            check=MARKS,
            level=WARNING,
            text=f"{len(found.odd)} marks of queue {queue!r} do not fit their runs: {named}{rest}.",
            remedy="A worker puts each right when it comes due; `dynadurable doctor --repair` does so now.",
        )
        if not repair:
            return finding
        for odd in found.odd:
            await disagreements.mend(self._items, odd, clock=self._clock, ids=self._operations.ids)
        self._operations.wake()
        return finding.mended()

    async def _stray_letters(self, queue: str, found: disagreements.Looked, *, repair: bool) -> Finding:
        if not found.stray:
            return Finding(check=LETTERS, level=OK, text=f"Each dead letter of queue {queue!r} has its dead run.")
        named = ", ".join(dead.run_id_of(letter) for letter in found.stray[:NAMED])
        finding = Finding(
            check=LETTERS,
            level=WARNING,
            text=f"{len(found.stray)} dead letters of queue {queue!r} are of runs that are not dead: {named}.",
            remedy="`dynadurable doctor --repair` removes these letters; the runs are not touched.",
        )
        if not repair:
            return finding
        for letter in found.stray:
            await dead.drop_stale(self._items, letter)
        return finding.mended()

    async def _unserved(self, queue: str, served: set[str]) -> list[Finding]:
        counts = await queues.counts(self._items, queue, now_ms=self._clock.now_ms(), limit=1)
        if queue in served or not counts.waiting:
            return []
        text = f"Runs of queue {queue!r} are due, and no worker that serves it was seen in the last three minutes."
        return [Finding(check=WORKERS, level=WARNING, text=text, remedy="Start one, unless a drain is scheduled.")]

    async def _cleaner(self) -> list[Finding]:
        now_ms = self._clock.now_ms()
        native = await table.has_native_ttl(self._items)
        try:
            noted = await cleaning.read_cleaning(self._items)
        except ItemUnreadableError as error:
            return [Finding(check=CLEANER, level=WARNING, text=f"{error}.")]
        if noted is None or not (noted.ended_ms or noted.began_ms):
            level = NOTE if native else WARNING
            text = "The cleaner has never come to the end of a pass here."
            return [Finding(check=CLEANER, level=level, text=text, remedy="Have `dynadurable clean` run now and then.")]
        when_ms = int(noted.ended_ms or noted.began_ms)
        told = relative(to_datetime(when_ms), to_datetime(now_ms))
        if not noted.ended_ms:
            text = (
                f"A pass of the cleaner that began {told} is under way, or was stopped; the next one goes on with it."
            )
            return [Finding(check=CLEANER, level=NOTE, text=text)]
        late = not native and now_ms - when_ms > CLEANING_LATE_MS
        remedy = "Have `dynadurable clean` run once a day." if late else None
        text = f"The cleaner has ended its last pass {told}."
        return [Finding(check=CLEANER, level=WARNING if late else OK, text=text, remedy=remedy)]


async def _guarded(name: str, check: Check) -> list[Finding]:
    """A check's findings; if it cannot be made, that is one."""
    try:
        found = await check()
    except PermissionMissingError as error:
        return [Finding(check=name, level=WARNING, text=f"This cannot be looked at: {error}.")]
    except DynadurableError as error:
        return [Finding(check=name, level=PROBLEM, text=f"{error}.")]
    return found


def _unreachable(error: Exception) -> Finding:
    check = REACH if isinstance(error, (StoreError, TableMissingError)) else STORE
    return Finding(check=check, level=PROBLEM, text=f"The table cannot be used: {error}.")


def _permission(role: Role, missing: Sequence[probes.Grant], *, is_wanted: bool) -> Finding:
    if not missing:
        return Finding(check=PERMISSIONS, level=OK, text=f"This process may {role}.")
    named = ", ".join(action if kind is None else f"{action} on {kind}" for action, kind in missing)
    text = f"This process may not {role}: it lacks {named}."
    return Finding(check=PERMISSIONS, level=PROBLEM if is_wanted else NOTE, text=text)


def _format(newer: int) -> Finding:
    if not newer:
        return Finding(check=FORMAT, level=OK, text=f"Items are in format {FORMAT_VERSION}, which this version writes.")
    text = f"{newer} items are in a newer format than {FORMAT_VERSION}: this version leaves them alone."
    return Finding(check=FORMAT, level=WARNING, text=text, remedy="Upgrade dynadurable in this process.")


class Doctor:
    """``app.doctor``: what is the matter with the table, and with what is in it."""

    def __init__(self, plans: DoctorPlans, run: Stepper) -> None:
        self._plans = plans
        self._run = run

    def table(self) -> Examination:
        """How the table fits: keys, time to live, indexes, streams, capacity; and what living in it costs.

        >>> [finding.text for finding in app.doctor.table().findings]  # doctest: +SKIP

        Raises:
            TableMissingError, PermissionMissingError, StoreUnavailableError: it cannot be described.
        """
        return self._run(self._plans.table())

    def examine(
        self, *, queues: Sequence[str] = (), repair: bool = False, roles: Sequence[Role | str] = ()
    ) -> Examination:
        """Look at everything: the above, reachability, clock, permissions, format, marks, letters, workers, cleaner.

        Permissions are found out by harmless requests. ``queues``: only these (default: those that this process or a
        live worker knows). ``roles``: what this process must be allowed, such as ``"work"``. ``repair`` puts right what
        crashes have left: marks that do not fit their runs, and dead letters of runs that are not dead.

        >>> app.doctor.examine(roles=["work"]).healthy  # doctest: +SKIP
        True

        Raises:
            ConfigurationError: there is no such role.
        """
        return self._run(self._plans.examine(Asked(queues=queues, repair=repair, roles=to_roles(roles))))


class AioDoctor:
    """``app.aio.doctor``: ``Doctor`` for event loops."""

    def __init__(self, plans: DoctorPlans, run: AioStepper) -> None:
        self._plans = plans
        self._run = run

    async def table(self) -> Examination:
        """How the table fits; see ``Doctor.table``."""
        return await self._run(self._plans.table())

    async def examine(
        self, *, queues: Sequence[str] = (), repair: bool = False, roles: Sequence[Role | str] = ()
    ) -> Examination:
        """Look at everything; see ``Doctor.examine``."""
        return await self._run(self._plans.examine(Asked(queues=queues, repair=repair, roles=to_roles(roles))))


def to_roles(names: Sequence[Role | str]) -> list[Role]:
    """The roles of these names.

    Raises:
        ConfigurationError: there is no such role.
    """
    try:
        return [Role(name) for name in names]
    except ValueError:
        raise ConfigurationError(f"roles are {', '.join(Role)}, not {', '.join(map(repr, names))}") from None
