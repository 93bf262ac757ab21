"""The Lambda function that drains."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_lambda as lambda_

from dynadurable.storage.environment import wants_metrics
from dynadurable_cdk import DrainFunction, DurableTable
from tests.cdk.synth import Template, policy_statements, resource, template_of
from tests.policies import as_list


def function_template(**settings: Any) -> Template:
    def build(stack: Stack) -> None:
        DrainFunction(
            stack,
            "Drain",
            table=DurableTable(stack, "Work"),
            code=lambda_.Code.from_inline("# stands for a folder"),
            app="shop.jobs:app",
            every=Duration.minutes(5),
            **settings,
        )

    return template_of(build)


@pytest.fixture(scope="module")
def plain() -> Template:
    return function_template()


def test_it_runs_the_librarys_handler_on_the_app(plain: Template) -> None:
    function = resource(plain, "AWS::Lambda::Function")
    assert function["Handler"] == "dynadurable.aws_lambda.handler"
    assert function["Environment"]["Variables"]["DYNADURABLE_APP"] == "shop.jobs:app"
    assert "Ref" in function["Environment"]["Variables"]["DYNADURABLE_TABLE"]
    assert wants_metrics(function["Environment"]["Variables"])


def test_a_failed_tick_is_not_repeated(plain: Template) -> None:
    """The next tick does the same work; Lambda's own two retries would only run beside it."""
    assert resource(plain, "AWS::Lambda::EventInvokeConfig")["MaximumRetryAttempts"] == 0
    assert resource(plain, "AWS::Scheduler::Schedule")["Target"]["RetryPolicy"]["MaximumRetryAttempts"] <= 3


def test_it_runs_on_graviton_with_time_to_work(plain: Template) -> None:
    function = resource(plain, "AWS::Lambda::Function")
    assert function["Architectures"] == ["arm64"]
    assert function["Timeout"] == 300


def test_the_scheduler_may_start_this_function_and_not_its_versions(plain: Template) -> None:
    (statement,) = [one for one in policy_statements(plain) if "lambda:InvokeFunction" in as_list(one["Action"])]
    assert set(statement["Resource"]) == {"Fn::GetAtt"}


def test_its_role_has_no_ready_made_policy_and_no_wildcard(plain: Template) -> None:
    for role in (found for found in plain["Resources"].values() if found["Type"] == "AWS::IAM::Role"):
        assert "ManagedPolicyArns" not in role["Properties"]
    for statement in policy_statements(plain):
        assert "*" not in as_list(statement["Resource"])
        assert not any("*" in action for action in as_list(statement["Action"]))


def test_its_concurrency_is_limited_when_asked_for(plain: Template) -> None:
    assert "ReservedConcurrentExecutions" not in resource(plain, "AWS::Lambda::Function")
    limited = resource(function_template(reserved_concurrency=2), "AWS::Lambda::Function")
    assert limited["ReservedConcurrentExecutions"] == 2
