"""The clock behind scheduled containers and functions: how often, and what a missed or failed tick means."""

from __future__ import annotations

from aws_cdk import Duration, TimeZone
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from dynadurable.errors import ConfigurationError

TICK_RETRIES = 2
"""A start that AWS refuses is tried twice more; then the next tick does the work, so nothing is lost."""
MIN_EVENT_AGE_SECONDS = 60
LONGEST_DRAIN = Duration.hours(1)


def cadence(every: Duration | None, cron: str | None, timezone: str) -> scheduler.ScheduleExpression:
    """The schedule of a tick.

    Raises:
        ConfigurationError: not exactly one of ``every`` and ``cron`` was given.
    """
    if (every is None) == (cron is None):
        raise ConfigurationError("give either every=Duration.minutes(5) or cron='0 3 * * ? *'")
    if every is not None:
        return scheduler.ScheduleExpression.rate(every)
    return scheduler.ScheduleExpression.expression(f"cron({cron})", TimeZone.of(timezone))


def retry_window(every: Duration | None) -> Duration:
    """How long a start is tried: not into the next tick, and at least the minute that AWS demands."""
    if every is None:
        return Duration.minutes(15)
    return Duration.seconds(max(MIN_EVENT_AGE_SECONDS, min(int(every.to_seconds()) // 2, 900)))


def drain_limit(every: Duration | None, given: Duration | None) -> int:
    """Seconds that one drain may take: four fifths of the time to the next tick, an hour at most, unless said.

    A drain ends as soon as nothing is due, so this bounds only the busy ones. One that is still running at the next
    tick does no harm: leases keep the two apart.

    >>> drain_limit(Duration.minutes(5), None)
    240
    """
    if given is not None:
        return int(given.to_seconds())
    longest = int(LONGEST_DRAIN.to_seconds())
    return longest if every is None else max(1, min(int(every.to_seconds()) * 4 // 5, longest))


def add_schedule(
    scope: Construct, *, expression: scheduler.ScheduleExpression, target: scheduler.IScheduleTarget, why: str
) -> scheduler.Schedule:
    """One schedule that starts the target."""
    return scheduler.Schedule(scope, "Schedule", schedule=expression, target=target, description=why)
