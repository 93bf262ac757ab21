"""The long-lived worker: it stops gracefully, is replaced when it hangs, and grows with the backlog."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_s3 as s3

from dynadurable.errors import ConfigurationError
from dynadurable.storage.environment import HEARTBEAT_FILE, wants_metrics
from dynadurable_cdk import Backlog, DurableTable, TaskSettings, WorkerService
from dynadurable_cdk.autoscale import steps
from tests.cdk.synth import Template, in_a_stack, policy_statements, resource, resources, template_of

IMAGE = "example/worker:1"


def service_template(**settings: Any) -> Template:
    def build(stack: Stack) -> None:
        image = ecs.ContainerImage.from_registry(IMAGE)
        WorkerService(stack, "Worker", table=DurableTable(stack, "Work"), image=image, app="shop.jobs:app", **settings)

    return template_of(build)


@pytest.fixture(scope="module")
def plain() -> Template:
    return service_template()


def container(template: Template) -> dict[str, Any]:
    only: dict[str, Any]
    (only,) = resource(template, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    return only


def test_it_runs_the_worker_command_in_exec_form(plain: Template) -> None:
    assert container(plain)["EntryPoint"] == ["dynadurable"]
    assert container(plain)["Command"] == ["worker", "shop.jobs:app", "--grace", "25"]


def test_the_container_may_take_longer_to_stop_than_the_worker() -> None:
    """Else it is killed while it hands work back."""
    assert container(service_template(grace=Duration.seconds(60)))["StopTimeout"] > 60


def test_a_grace_period_longer_than_the_platform_allows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="120 s"):
        service_template(grace=Duration.minutes(5))


def test_signals_reach_the_worker_through_an_init_process(plain: Template) -> None:
    assert container(plain)["LinuxParameters"]["InitProcessEnabled"] is True


def test_it_knows_its_table_by_reference(plain: Template) -> None:
    environment = {variable["Name"]: variable["Value"] for variable in container(plain)["Environment"]}
    table = next(name for name, found in plain["Resources"].items() if found["Type"] == "AWS::DynamoDB::Table")
    assert environment["DYNADURABLE_TABLE"] == {"Ref": table}


def test_a_deployment_that_fails_is_rolled_back(plain: Template) -> None:
    configuration = resource(plain, "AWS::ECS::Service")["DeploymentConfiguration"]
    assert configuration["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}


def test_it_logs_to_a_group_that_forgets(plain: Template) -> None:
    assert container(plain)["LogConfiguration"]["LogDriver"] == "awslogs"
    assert resource(plain, "AWS::Logs::LogGroup")["RetentionInDays"] == 30


def test_it_runs_on_graviton_unless_said_otherwise(plain: Template) -> None:
    def architecture(template: Template) -> str:
        return str(resource(template, "AWS::ECS::TaskDefinition")["RuntimePlatform"]["CpuArchitecture"])

    assert architecture(plain) == "ARM64"
    assert architecture(service_template(settings=TaskSettings(architecture="X86_64"))) == "X86_64"


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ARM64 or X86_64"):
        TaskSettings(architecture="arm")


def test_its_network_has_no_nat_gateway_and_a_door_to_dynamodb(plain: Template) -> None:
    assert not resources(plain, "AWS::EC2::NatGateway")
    assert not resources(plain, "AWS::EC2::EIP")
    doors = [str(endpoint["ServiceName"]) for endpoint in resources(plain, "AWS::EC2::VPCEndpoint")]
    assert any("dynamodb" in door for door in doors)
    assert all(endpoint["VpcEndpointType"] == "Gateway" for endpoint in resources(plain, "AWS::EC2::VPCEndpoint"))
    network = resource(plain, "AWS::ECS::Service")["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == "ENABLED"


def test_nothing_comes_in(plain: Template) -> None:
    assert "SecurityGroupIngress" not in resource(plain, "AWS::EC2::SecurityGroup")
    assert not resources(plain, "AWS::EC2::SecurityGroupIngress")


def test_nothing_was_looked_up(plain: Template) -> None:
    """A look-up would need an account at synthesis."""
    assert "dummy" not in str(plain)
    assert set(plain["Parameters"]) == {"BootstrapVersion"}


def test_in_a_network_with_private_subnets_it_has_no_public_address() -> None:
    def build(stack: Stack) -> None:
        image = ecs.ContainerImage.from_registry(IMAGE)
        vpc = ec2.Vpc(stack, "Own")
        WorkerService(stack, "Worker", table=DurableTable(stack, "Work"), image=image, app="a:b", vpc=vpc)

    template = template_of(build)
    network = resource(template, "AWS::ECS::Service")["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == "DISABLED"
    assert all("Private" in subnet["Ref"] for subnet in network["Subnets"])
    assert len(resources(template, "AWS::EC2::VPC")) == 1


def test_two_services_of_a_stack_share_one_network() -> None:
    def build(stack: Stack) -> None:
        table, image = DurableTable(stack, "Work"), ecs.ContainerImage.from_registry(IMAGE)
        for name in ("One", "Two"):
            WorkerService(stack, name, table=table, image=image, app="a:b")

    assert len(resources(template_of(build), "AWS::EC2::VPC")) == 1


def test_spare_capacity_is_used_when_asked_for() -> None:
    service = resource(service_template(settings=TaskSettings(spot=True)), "AWS::ECS::Service")
    assert service["CapacityProviderStrategy"] == [{"CapacityProvider": "FARGATE_SPOT", "Weight": 1}]


def test_the_worker_itself_can_be_granted_what_its_jobs_need() -> None:
    def build(stack: Stack) -> None:
        image = ecs.ContainerImage.from_registry(IMAGE)
        worker = WorkerService(stack, "Worker", table=DurableTable(stack, "Work"), image=image, app="a:b")
        s3.Bucket(stack, "Bucket").grant_read(worker)

    assert "s3:GetObject*" in str(policy_statements(template_of(build)))


# --- the health check -----------------------------------------------------------------------------


def check_exit_code(command: list[str], heartbeat: Path) -> int:
    assert command[:2] == ["CMD", "python"]
    environment = {HEARTBEAT_FILE: str(heartbeat)}
    return subprocess.run(
        [sys.executable, *command[2:]], env=environment, check=False, stderr=subprocess.DEVNULL
    ).returncode


def test_a_worker_that_has_polled_lately_is_healthy(plain: Template, tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    heartbeat.touch()
    assert check_exit_code(container(plain)["HealthCheck"]["Command"], heartbeat) == 0


def test_a_worker_that_hangs_or_never_came_up_is_not(plain: Template, tmp_path: Path) -> None:
    command = container(plain)["HealthCheck"]["Command"]
    assert check_exit_code(command, tmp_path / "never") != 0
    heartbeat = tmp_path / "heartbeat"
    heartbeat.touch()
    os.utime(heartbeat, (1_000_000_000, 1_000_000_000))
    assert check_exit_code(command, heartbeat) != 0


def test_the_health_check_reads_the_file_that_the_worker_is_told_to_touch(plain: Template) -> None:
    environment = {variable["Name"] for variable in container(plain)["Environment"]}
    assert HEARTBEAT_FILE in environment
    assert HEARTBEAT_FILE in container(plain)["HealthCheck"]["Command"][-1]


def test_it_reports_what_alarms_and_scaling_watch(plain: Template) -> None:
    environment = {variable["Name"]: variable["Value"] for variable in container(plain)["Environment"]}
    assert wants_metrics(environment)


# --- the number of workers ------------------------------------------------------------------------


def test_a_scaled_service_keeps_its_size_when_it_is_deployed_again() -> None:
    template = service_template(autoscale=Backlog(max_tasks=20))
    assert "DesiredCount" not in resource(template, "AWS::ECS::Service")
    target = resource(template, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 20)


def capacities(policy: dict[str, Any]) -> list[int]:
    configuration = policy["StepScalingPolicyConfiguration"]
    assert configuration["AdjustmentType"] == "ExactCapacity"
    return sorted(adjustment["ScalingAdjustment"] for adjustment in configuration["StepAdjustments"])


def test_the_scaling_steps_lead_from_the_fewest_tasks_to_the_most() -> None:
    template = service_template(autoscale=Backlog(max_tasks=20, queues=["mail", "billing"]))
    policies = resources(template, "AWS::ApplicationAutoScaling::ScalingPolicy")
    assert sorted(tasks for policy in policies for tasks in capacities(policy)) == [1, 2, 4, 8, 16, 20]


def test_scaling_follows_the_backlog_of_all_its_queues() -> None:
    template = service_template(autoscale=Backlog(max_tasks=4, queues=["mail", "billing"]))
    for alarm in resources(template, "AWS::CloudWatch::Alarm"):
        watched = [metric["MetricStat"] for metric in alarm["Metrics"] if "MetricStat" in metric]
        assert {stat["Metric"]["MetricName"] for stat in watched} == {"Backlog"}
        assert {stat["Stat"] for stat in watched} == {"Maximum"}
        names = [one["Value"] for stat in watched for one in stat["Metric"]["Dimensions"] if one["Name"] == "Queue"]
        assert names == ["mail", "billing"]


@pytest.mark.parametrize(
    ("backlog", "tasks"), [(0, 1), (100, 1), (101, 2), (200, 2), (201, 4), (1600, 16), (1601, 20), (10**6, 20)]
)
def test_a_backlog_calls_for_enough_tasks(backlog: int, tasks: int) -> None:
    (step,) = [
        step
        for step in steps(Backlog(max_tasks=20, jobs_per_task=100))
        if step.lower <= backlog and (step.upper is None or backlog < step.upper)
    ]
    assert step.tasks == tasks


@pytest.mark.parametrize(
    "settings",
    [
        {"max_tasks": 1},
        {"max_tasks": 4, "min_tasks": 0},
        {"max_tasks": 4, "jobs_per_task": 0},
        {"max_tasks": 4, "queues": []},
        {"max_tasks": 20, "jobs_per_task": 1000},
    ],
)
def test_scaling_that_cannot_work_is_refused(settings: dict[str, Any]) -> None:
    """From no task at all nothing would ever start, and beyond what they count: workers report the backlog."""
    with pytest.raises(ConfigurationError):
        Backlog(**settings)


def test_isolated_subnets_get_no_public_address() -> None:
    def build(stack: Stack) -> None:
        isolated = ec2.SubnetConfiguration(name="Alone", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
        vpc = ec2.Vpc(stack, "Own", nat_gateways=0, subnet_configuration=[isolated])
        image = ecs.ContainerImage.from_registry(IMAGE)
        worker = WorkerService(stack, "Worker", table=DurableTable(stack, "Work"), image=image, app="a:b", vpc=vpc)
        assert worker.service is not None

    in_a_stack(build)
