"""Containers by the clock."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_ecs as ecs

from dynadurable.errors import ConfigurationError
from dynadurable.storage.environment import wants_metrics
from dynadurable_cdk import DurableTable, ScheduledCleaner, ScheduledWorker
from tests.cdk.synth import Template, in_a_stack, policy_statements, resource, template_of
from tests.policies import as_list


def scheduled_template(**settings: Any) -> Template:
    def build(stack: Stack) -> None:
        image = ecs.ContainerImage.from_registry("example/worker:1")
        ScheduledWorker(
            stack, "Nightly", table=DurableTable(stack, "Work"), image=image, app="shop.jobs:app", **settings
        )

    return template_of(build)


@pytest.fixture(scope="module")
def every_five_minutes() -> Template:
    return scheduled_template(every=Duration.minutes(5))


def container(template: Template) -> dict[str, Any]:
    only: dict[str, Any]
    (only,) = resource(template, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    return only


def test_it_drains_within_the_time_to_the_next_tick(every_five_minutes: Template) -> None:
    assert container(every_five_minutes)["Command"] == ["drain", "shop.jobs:app", "--timeout", "240"]


def test_a_time_limit_of_ones_own_is_kept() -> None:
    template = scheduled_template(cron="0 3 * * ? *", timezone="Europe/Berlin", time_limit=Duration.hours(2))
    assert container(template)["Command"][-1] == "7200"
    schedule = resource(template, "AWS::Scheduler::Schedule")
    assert schedule["ScheduleExpression"] == "cron(0 3 * * ? *)"
    assert schedule["ScheduleExpressionTimezone"] == "Europe/Berlin"


def test_a_drain_takes_an_hour_at_most_unless_said() -> None:
    assert container(scheduled_template(every=Duration.days(1)))["Command"][-1] == "3600"


def test_it_reports_what_alarms_watch(every_five_minutes: Template) -> None:
    environment = {variable["Name"]: variable["Value"] for variable in container(every_five_minutes)["Environment"]}
    assert wants_metrics(environment)


def test_it_starts_on_time(every_five_minutes: Template) -> None:
    schedule = resource(every_five_minutes, "AWS::Scheduler::Schedule")
    assert schedule["ScheduleExpression"] == "rate(5 minutes)"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}


def test_a_start_is_not_retried_into_the_next_tick(every_five_minutes: Template) -> None:
    """AWS's own limit is 185 tries in a day: a queue of stale starts behind one outage."""
    retry = resource(every_five_minutes, "AWS::Scheduler::Schedule")["Target"]["RetryPolicy"]
    assert retry["MaximumRetryAttempts"] <= 3
    assert 60 <= retry["MaximumEventAgeInSeconds"] < 300


def test_a_tick_a_minute_keeps_to_the_shortest_retry_that_aws_takes() -> None:
    template = scheduled_template(every=Duration.minutes(1))
    assert resource(template, "AWS::Scheduler::Schedule")["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] == 60
    assert container(template)["Command"][-1] == "48"


def test_the_scheduler_may_start_this_task_and_no_other(every_five_minutes: Template) -> None:
    started = [
        statement
        for statement in policy_statements(every_five_minutes)
        if "ecs:RunTask" in as_list(statement["Action"])
    ]
    (statement,) = started
    assert statement["Resource"] == {"Ref": resource_name(every_five_minutes, "AWS::ECS::TaskDefinition")}


def resource_name(template: Template, kind: str) -> str:
    (name,) = [str(name) for name, found in template["Resources"].items() if found["Type"] == kind]
    return name


@pytest.mark.parametrize("times", [{}, {"every": "both", "cron": "0 3 * * ? *"}])
def test_exactly_one_kind_of_schedule_must_be_given(times: dict[str, Any]) -> None:
    def build(stack: Stack) -> None:
        settings = {**times, **({"every": Duration.minutes(5)} if "every" in times else {})}
        image = ecs.ContainerImage.from_registry("example/worker:1")
        with pytest.raises(ConfigurationError, match="either every"):
            ScheduledWorker(stack, "Nightly", table=DurableTable(stack, "Work"), image=image, app="a:b", **settings)

    in_a_stack(build)


def test_only_the_cleaners_role_may_scan() -> None:
    def build(stack: Stack) -> None:
        table, image = DurableTable(stack, "Work"), ecs.ContainerImage.from_registry("example/worker:1")
        ScheduledWorker(stack, "Nightly", table=table, image=image, app="a:b", every=Duration.minutes(5))
        ScheduledCleaner(stack, "Cleaner", table=table, image=image)

    template = template_of(build)
    scanning = [
        found["Properties"]["PolicyName"]
        for found in template["Resources"].values()
        if found["Type"] == "AWS::IAM::Policy" and "dynamodb:Scan" in str(found)
    ]
    assert len(scanning) == 1
    assert scanning[0].startswith("CleanerTask")
    schedules = [found["Properties"] for found in template["Resources"].values() if "Scheduler::Sch" in found["Type"]]
    assert {schedule["ScheduleExpression"] for schedule in schedules} == {"rate(5 minutes)", "rate(1 day)"}
