"""Alarms and dashboard watch what workers report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sns as sns

from dynadurable.model.metrics import QueueFigures, emf_line
from dynadurable_cdk import DurableTable, WorkAlarms, WorkDashboard
from tests.cdk.synth import Template, resource, resources, template_of

QUEUES = ["mail", "käfer/1"]


def build(stack: Stack) -> None:
    imported = dynamodb.Table.from_table_name(stack, "Shop", "shop")
    table = DurableTable.from_table(imported, prefix="jobs/")
    alarms = WorkAlarms(stack, "Alarms", table=table, queues=QUEUES, silence=Duration.minutes(15))
    alarms.notify(actions.SnsAction(sns.Topic(stack, "Topic", enforce_ssl=True)))
    WorkDashboard(stack, "Dashboard", table=table, queues=QUEUES, alarms=alarms)


@pytest.fixture(scope="module")
def template() -> Template:
    return template_of(build)


def alarms_on(template: Template, metric: str) -> list[dict[str, Any]]:
    found = [alarm for alarm in resources(template, "AWS::CloudWatch::Alarm") if alarm.get("MetricName") == metric]
    assert found
    return found


def reported(queue: str) -> dict[str, Any]:
    figures = QueueFigures(backlog=1, oldest_due_seconds=1, dead_letters=1, workers=1)
    record: dict[str, Any] = json.loads(emf_line(figures, table="shop", queue=queue, prefix="jobs/", now_ms=0))
    return record


@pytest.mark.parametrize("metric", ["DeadLetters", "OldestDueSeconds", "Workers"])
def test_each_queue_has_an_alarm_on_the_very_metric_that_a_worker_reports(template: Template, metric: str) -> None:
    watched = alarms_on(template, metric)
    assert len(watched) == len(QUEUES)
    for alarm, queue in zip(watched, QUEUES, strict=True):
        record = reported(queue)
        (directive,) = record["_aws"]["CloudWatchMetrics"]
        assert alarm["Namespace"] == directive["Namespace"]
        assert {one["Name"]: one["Value"] for one in alarm["Dimensions"]} == {
            name: record[name] for name in directive["Dimensions"][0]
        }
        assert alarm["Statistic"] == "Maximum"


def test_one_dead_letter_is_enough(template: Template) -> None:
    for alarm in alarms_on(template, "DeadLetters"):
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("GreaterThanThreshold", 0)


def test_silence_is_an_alarm(template: Template) -> None:
    """Nobody reports that nobody is there."""
    for alarm in alarms_on(template, "Workers"):
        assert alarm["TreatMissingData"] == "breaching"
        assert alarm["Period"] == 900


def test_throttling_of_reads_and_of_writes_is_an_alarm(template: Template) -> None:
    for metric in ("ReadThrottleEvents", "WriteThrottleEvents"):
        (alarm,) = alarms_on(template, metric)
        assert alarm["Namespace"] == "AWS/DynamoDB"
        assert alarm["Dimensions"] == [{"Name": "TableName", "Value": "shop"}]


def test_every_alarm_is_sent_and_so_is_its_end(template: Template) -> None:
    for alarm in resources(template, "AWS::CloudWatch::Alarm"):
        assert len(alarm["AlarmActions"]) == len(alarm["OKActions"]) == 1


def test_the_dashboard_shows_every_queue_and_every_figure(template: Template) -> None:
    body = str(resource(template, "AWS::CloudWatch::Dashboard")["DashboardBody"])
    for word in ("Backlog", "OldestDueSeconds", "Workers", "DeadLetters", "ConsumedWriteCapacityUnits", "mail"):
        assert word in body
