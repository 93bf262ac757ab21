"""How many workers a backlog calls for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_ecs as ecs

from dynadurable.errors import ConfigurationError
from dynadurable.model.metrics import BACKLOG, MAX_BACKLOG
from dynadurable_cdk.metrics import total
from dynadurable_cdk.table import WorkTable

COOLDOWN = Duration.minutes(5)
"""Workers are taken away at most this often; they are added at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """Between ``min_tasks`` and ``max_tasks`` workers, one for each ``jobs_per_task`` due jobs in these queues.

    At least one worker stays: workers report the backlog themselves, so nobody would see work arrive with none of
    them there. To pay for no idle worker at all use ``ScheduledWorker`` or ``DrainFunction``.

    They count a queue's backlog up to 10,000, so that must call for ``max_tasks``.
    """

    max_tasks: int
    min_tasks: int = 1
    jobs_per_task: int = 100
    queues: Sequence[str] = ("default",)

    def __post_init__(self) -> None:
        if not 1 <= self.min_tasks < self.max_tasks:
            raise ConfigurationError(
                f"min_tasks must be 1 or more and max_tasks above it, not {self.min_tasks} and {self.max_tasks}"
            )
        if self.jobs_per_task < 1 or not self.queues:
            raise ConfigurationError("jobs_per_task must be 1 or more, and at least one queue must be named")
        last = steps(self)[-1].lower
        if last > MAX_BACKLOG:
            raise ConfigurationError(
                f"{self.max_tasks} tasks would be called for by a backlog of {last:,}, but workers count it up to "
                f"{MAX_BACKLOG:,}: lower jobs_per_task or max_tasks"
            )


@dataclass(frozen=True, slots=True)
class Step:
    """From this backlog on (and below ``upper``, if there is one) that many tasks."""

    lower: int
    upper: int | None
    tasks: int


def steps(backlog: Backlog) -> list[Step]:
    """Doublings from the fewest tasks to the most.

    >>> [(step.lower, step.tasks) for step in steps(Backlog(max_tasks=20, jobs_per_task=100))]
    [(0, 1), (101, 2), (201, 4), (401, 8), (801, 16), (1601, 20)]
    """
    sizes = [backlog.min_tasks]
    while sizes[-1] < backlog.max_tasks:
        sizes.append(min(sizes[-1] * 2, backlog.max_tasks))
    lowers = [0, *(size * backlog.jobs_per_task + 1 for size in sizes[:-1])]
    uppers = [*lowers[1:], None]
    return [Step(*step) for step in zip(lowers, uppers, sizes, strict=True)]


def scale_on_backlog(service: ecs.FargateService, table: WorkTable, backlog: Backlog) -> None:
    """Let the service follow the backlog that its workers report once a minute."""
    scaling = service.auto_scale_task_count(min_capacity=backlog.min_tasks, max_capacity=backlog.max_tasks)
    scaling.scale_on_metric(
        "Backlog",
        metric=total(table, BACKLOG, backlog.queues),
        adjustment_type=autoscaling.AdjustmentType.EXACT_CAPACITY,
        metric_aggregation_type=autoscaling.MetricAggregationType.MAXIMUM,
        cooldown=COOLDOWN,
        scaling_steps=[
            autoscaling.ScalingInterval(lower=step.lower, upper=step.upper, change=step.tasks)
            for step in steps(backlog)
        ],
    )
