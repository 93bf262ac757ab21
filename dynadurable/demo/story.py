"""The story: a molt is posted, its delivery is killed half-way, somebody else goes on, and the table is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..clock import SystemClock
from . import check
from .delivery import Delivery
from .marks import MarkInTable
from .report import REPEATED_AT_MOST, Report
from .screen import Line, Row, Screen
from .stage import Settings, Stage, make_graph

MOLT = "Moulting season is open. Shells off, claws up!"
TITLE = "dynadurable demo: a fan-out that survives kill -9"
ABOUT = "Krabber, a small social network, on one DynamoDB table. No queue, no broker."
HOW_COUNTED = (
    "The first three are read from the table. The rest is counted at a door in front of the store that every request "
    "passes, also those of workers that were killed. A write costs one unit for each started KB of the item, and "
    "twice that in a transaction."
)


def tell(settings: Settings, screen: Screen, *, at_end: Callable[[Stage, Report], None]) -> Report:
    """Play the story from the beginning to the end. ``at_end`` is called while the store still runs.

    Raises:
        StoodStillError: a process ended or stood still without being killed by us.
        ConfigurationError: something that the demo needs is not installed.
    """
    clock = SystemClock()
    began = clock.monotonic()
    screen.title(TITLE, ABOUT)
    with Stage(settings, screen, clock, make_graph(settings.followers)) as stage:
        _set_up(stage)
        marks = MarkInTable(stage.krabber.app, stage.krabber.deliver, stage.reader, clock)
        molt = _post(stage, marks)
        screen.step(3, "Worker processes deliver it to every follower" + " and get killed" * (settings.kills > 0))
        kills = Delivery(stage, marks).run()
        screen.step(4, "Who got it?")
        _show_one(stage)
        report = Report(
            store=stage.store.server.name,
            krabs=len(stage.graph.krabs),
            followings=stage.graph.followings,
            delivered=check.delivered(stage.reader, table=stage.table, author=stage.star, molt_id=str(molt.sk)),
            writes=stage.tally.deliveries,
            kills=kills,
            spent=stage.tally.spent(),
            lease_seconds=settings.lease_seconds,
            seconds=clock.monotonic() - began,
        )
        screen.summary(list(_lines(report)))
        screen.note(HOW_COUNTED)
        screen.verdict(_verdict(report), good=report.complete)
        at_end(stage, report)
    return report


def _set_up(stage: Stage) -> None:
    screen = stage.screen
    screen.step(1, "Krabs follow krabs")
    screen.say(
        f"{len(stage.graph.krabs):,} krabs, {stage.graph.followings:,} followings; "
        f"@{stage.star} has {stage.followers:,} followers"
    )
    screen.say(f"one table on {stage.store.server.name}, a process of its own at {stage.store.endpoint_url}")
    stage.fill()


def _post(stage: Stage, marks: MarkInTable) -> Any:
    stage.screen.step(2, f"@{stage.star} posts a molt: one transaction puts the molt and its mark")
    molt = stage.post(MOLT)
    stage.screen.table_holds([Row(pk=molt.pk, sk=molt.sk, says=[("text", molt.text)]), *marks.rows()])
    return molt


def _show_one(stage: Stage) -> None:
    follower = stage.graph.followers[stage.star][-1]
    for molt in stage.krabber.read_trench(stage.reader, follower, limit=1):
        stage.screen.say(f'Trench of @{follower}: "{molt.text}"')


def _lines(report: Report) -> Iterator[Line]:
    delivered = report.delivered
    yield Line(
        what="got it exactly once",
        found=f"{delivered.once:,} of {delivered.followers:,}",
        good=delivered.molt_is_there and not delivered.missing and not delivered.twice,
    )
    yield Line(
        what="others who got it",
        found=f"{len(delivered.strangers):,} of {report.krabs - delivered.followers:,}",
        good=not delivered.strangers,
    )
    yield Line(what="marks left over", found=f"{delivered.marks_left}", good=not delivered.marks_left)
    if report.kills:
        each = f"at most {REPEATED_AT_MOST}" + " each" * (len(report.kills) > 1)
        yield Line(
            what="writes repeated by kills",
            found=f"{report.repeated:,} of {report.writes:,} by {_kills(report)}; {each}",
            good=report.within_bound,
        )
        waits = sorted({f"{kill.take_over_seconds:.1f}" for kill in report.kills})
        yield Line(
            what="take-over after a kill",
            found=f"{' to '.join((waits[0], *waits[1:][-1:]))} s; the lease is {report.lease_seconds:.0f} s",
        )
    yield Line(what="write units, entries", found=f"{report.entry_units:,.0f}")
    kinds = ", ".join(f"{kind} {one.units:,.0f}" for kind, one in report.spent.items())
    yield Line(what="write units, mark", found=f"{report.mark_units:,.0f} ({kinds})")


def _kills(report: Report) -> str:
    return "1 kill" if len(report.kills) == 1 else f"{len(report.kills)} kills"


def _verdict(report: Report) -> str:
    took = f"({report.seconds:.0f} s)"
    if report.complete:
        killed = "Killed in the middle: n" if report.kills else "N"
        return f"{killed}othing is lost and nothing is there twice. {took}"
    return f"This is not what was promised: {_what_is_wrong(report)} {took}"


def _what_is_wrong(report: Report) -> str:
    delivered = report.delivered
    found = {
        "no molt": int(not delivered.molt_is_there),
        "followers without it": len(delivered.missing),
        "followers with several": len(delivered.twice),
        "others with it": len(delivered.strangers),
        "marks left over": delivered.marks_left,
        "kills that made too many writes be repeated": sum(kill.repeated > REPEATED_AT_MOST for kill in report.kills),
    }
    return ", ".join(f"{number:,} {what}" for what, number in found.items() if number)
