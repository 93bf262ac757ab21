"""The metrics that workers report, as CDK sees them."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from dynadurable.model.metrics import NAMESPACE, dimensions
from dynadurable_cdk.table import WorkTable


def figure(table: WorkTable, name: str, queue: str, *, period: Duration | None = None) -> cloudwatch.Metric:
    """One queue's figure. Every worker reports the same gauge, so the greatest is taken, never the sum.

    >>> figure(table, BACKLOG, "mail").create_alarm(stack, "Flood", threshold=1000, ...)  # doctest: +SKIP
    """
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map=dimensions(table=table.schema.table, queue=queue, prefix=table.schema.prefix),
        statistic=cloudwatch.Stats.MAXIMUM,
        period=period or Duration.minutes(1),
    )


def total(table: WorkTable, name: str, queues: Sequence[str], *, period: Duration | None = None) -> cloudwatch.IMetric:
    """The figure over several queues together; a queue that reports nothing counts as zero."""
    if len(queues) == 1:
        return figure(table, name, queues[0], period=period)
    metrics = {f"q{number}": figure(table, name, queue, period=period) for number, queue in enumerate(queues)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({metric_id}, 0)" for metric_id in metrics),
        using_metrics=dict(metrics),
        period=period or Duration.minutes(1),
        label=name,
    )
