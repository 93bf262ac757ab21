"""What is worth waking somebody for."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from dynadurable.model.metrics import DEAD_LETTERS, OLDEST_DUE_SECONDS, WORKERS
from dynadurable_cdk.metrics import figure
from dynadurable_cdk.table import WorkTable

THROTTLE_METRICS = ("ReadThrottleEvents", "WriteThrottleEvents")


class WorkAlarms(Construct):
    """Four questions for each queue and table, asked all the time.

    * Are there dead letters? (until they are replayed or purged)
    * Has due work been waiting for longer than ``oldest_due`` (15 minutes)?
    * Has no worker shown a sign of life for ``silence`` (5 minutes)? With scheduled workers say two ticks or more.
    * Is the table throttled?

    >>> alarms = WorkAlarms(stack, "Alarms", table=table, queues=["mail"])  # doctest: +SKIP
    >>> alarms.notify(SnsAction(topic))  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        queues: Sequence[str] = ("default",),
        oldest_due: Duration | None = None,
        silence: Duration | None = None,
    ) -> None:
        super().__init__(scope, id)
        oldest_due = oldest_due or Duration.minutes(15)
        self.alarms: list[cloudwatch.Alarm] = []
        for queue in queues:
            place = Construct(self, f"Queue-{queue}")
            self.alarms += [
                _dead_letters(place, table, queue),
                _oldest_due(place, table, queue, oldest_due),
                _no_worker(place, table, queue, silence or Duration.minutes(5)),
            ]
        self.alarms += [_throttled(self, table, name) for name in THROTTLE_METRICS]

    def notify(self, *actions: cloudwatch.IAlarmAction) -> None:
        """Send every alarm, and its end, to these."""
        for alarm in self.alarms:
            alarm.add_alarm_action(*actions)
            alarm.add_ok_action(*actions)


def _dead_letters(scope: Construct, table: WorkTable, queue: str) -> cloudwatch.Alarm:
    return figure(table, DEAD_LETTERS, queue, period=Duration.minutes(5)).create_alarm(
        scope,
        "DeadLetters",
        alarm_description=f"Queue {queue}: there are dead letters. See: dynadurable dead list",
        threshold=0,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=1,
        treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
    )


def _oldest_due(scope: Construct, table: WorkTable, queue: str, limit: Duration) -> cloudwatch.Alarm:
    return figure(table, OLDEST_DUE_SECONDS, queue).create_alarm(
        scope,
        "OldestDue",
        alarm_description=f"Queue {queue}: due work waits for too long. Are there enough workers?",
        threshold=limit.to_seconds(),
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=3,
        treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
    )


def _no_worker(scope: Construct, table: WorkTable, queue: str, silence: Duration) -> cloudwatch.Alarm:
    return figure(table, WORKERS, queue, period=silence).create_alarm(
        scope,
        "NoWorker",
        alarm_description=f"Queue {queue}: no worker has shown a sign of life.",
        threshold=1,
        comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        evaluation_periods=1,
        # Nobody reports that nobody is there.
        treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
    )


def _throttled(scope: Construct, table: WorkTable, name: str) -> cloudwatch.Alarm:
    metric = cloudwatch.Metric(
        namespace="AWS/DynamoDB",
        metric_name=name,
        dimensions_map={"TableName": table.table.table_name},
        statistic=cloudwatch.Stats.SUM,
        period=Duration.minutes(5),
    )
    return metric.create_alarm(
        scope,
        name,
        alarm_description=f"{name}: the table is throttled. A partition key may be hot: give the queue more shards.",
        threshold=0,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=3,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
