"""One screen that shows how the work is going."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from dynadurable.model.metrics import BACKLOG, DEAD_LETTERS, OLDEST_DUE_SECONDS, WORKERS
from dynadurable_cdk.alarms import THROTTLE_METRICS, WorkAlarms
from dynadurable_cdk.metrics import figure
from dynadurable_cdk.table import WorkTable

_CHARTS = (
    ("Due work", BACKLOG),
    ("Seconds that the oldest due work has waited", OLDEST_DUE_SECONDS),
    ("Workers", WORKERS),
    ("Dead letters", DEAD_LETTERS),
)
_CONSUMED = ("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits")


class WorkDashboard(Construct):
    """Backlog, waiting time, workers and dead letters of each queue; what the table consumes; the alarms.

    >>> WorkDashboard(stack, "Dashboard", table=table, queues=["mail"], alarms=alarms)  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        queues: Sequence[str] = ("default",),
        alarms: WorkAlarms | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.dashboard = cloudwatch.Dashboard(self, "Dashboard", default_interval=Duration.hours(3))
        if alarms is not None:
            status = cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms.alarms), width=24)
            self.dashboard.add_widgets(status)
        charts = [
            _chart(title, [figure(table, name, queue).with_(label=queue) for queue in queues])
            for title, name in _CHARTS
        ]
        self.dashboard.add_widgets(*charts[:2])
        self.dashboard.add_widgets(*charts[2:])
        self.dashboard.add_widgets(
            _chart("Capacity units consumed in a minute", [_of_the_table(table, name) for name in _CONSUMED]),
            _chart("Throttled requests in a minute", [_of_the_table(table, name) for name in THROTTLE_METRICS]),
        )


def _chart(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=12, left_y_axis=cloudwatch.YAxisProps(min=0))


def _of_the_table(table: WorkTable, name: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name=name,
        dimensions_map={"TableName": table.table.table_name},
        statistic=cloudwatch.Stats.SUM,
        period=Duration.minutes(1),
        label=name,
    )
