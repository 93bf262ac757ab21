"""Ready stacks: one for the table, which is kept, and one for what works on it, which comes and goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aws_cdk import App, Duration, Stack
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from dynadurable.errors import ConfigurationError
from dynadurable_cdk.alarms import WorkAlarms
from dynadurable_cdk.autoscale import Backlog
from dynadurable_cdk.dashboard import WorkDashboard
from dynadurable_cdk.drain_function import DrainFunction
from dynadurable_cdk.scheduled_worker import ScheduledCleaner, ScheduledWorker
from dynadurable_cdk.table import DurableTable, WorkTable
from dynadurable_cdk.worker_service import WorkerService


class Mode(StrEnum):
    """How the work is run."""

    SERVICE = "service"
    """Containers that run all the time."""
    SCHEDULED = "scheduled"
    """A container every few minutes."""
    FUNCTION = "function"
    """A Lambda function every few minutes."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What to deploy; each of these is a context value of the ready app (``cdk deploy -c minutes=1``).

    ``app`` is ``module:app``. ``table_name`` fixes the table's name; without one AWS makes one up, and processes get
    it from their environment. ``queues`` are those that alarms watch and scaling follows. ``own_keys`` are patterns of
    partition keys under which the job bodies keep their own items in the same table.
    """

    app: str
    image: ecs.ContainerImage | None = None
    code: lambda_.Code | None = None
    mode: Mode = Mode.SERVICE
    queues: Sequence[str] = ("default",)
    own_keys: Sequence[str] = ()
    table_name: str | None = None
    prefix: str = ""
    max_tasks: int = 4
    minutes: int = 5


class TableStack(Stack):
    """The table, by itself, so that no deployment of a worker ever touches it."""

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment, **stack_settings: Any) -> None:
        super().__init__(scope, id, **stack_settings)
        self.table = DurableTable(self, "Work", table_name=deployment.table_name, prefix=deployment.prefix)


class WorkStack(Stack):
    """Workers of the chosen kind, a daily cleaner where there is an image for it, alarms and a dashboard."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        deployment: Deployment,
        **stack_settings: Any,
    ) -> None:
        super().__init__(scope, id, **stack_settings)
        worker = _WORKERS[deployment.mode](self, table, deployment)
        if deployment.own_keys:
            _grant_own_items(worker, table, deployment.own_keys)
        if deployment.image is not None:
            ScheduledCleaner(self, "Cleaner", table=table, image=deployment.image)
        ticks = Duration.minutes(5 if deployment.mode is Mode.SERVICE else max(5, 3 * deployment.minutes))
        alarms = WorkAlarms(self, "Alarms", table=table, queues=deployment.queues, silence=ticks)
        WorkDashboard(self, "Dashboard", table=table, queues=deployment.queues, alarms=alarms)


def add_stacks(app: App, deployment: Deployment) -> None:
    """Both stacks, under the names that the README uses."""
    table = TableStack(app, "DynadurableTable", deployment=deployment).table
    WorkStack(app, "DynadurableWork", table=table, deployment=deployment)


def _service(scope: Construct, table: WorkTable, deployment: Deployment) -> iam.IGrantable:
    return WorkerService(
        scope,
        "Worker",
        table=table,
        image=_image(deployment),
        app=deployment.app,
        autoscale=Backlog(max_tasks=deployment.max_tasks, queues=deployment.queues)
        if deployment.max_tasks > 1
        else None,
    )


def _scheduled(scope: Construct, table: WorkTable, deployment: Deployment) -> iam.IGrantable:
    every = Duration.minutes(deployment.minutes)
    return ScheduledWorker(scope, "Worker", table=table, image=_image(deployment), app=deployment.app, every=every)


def _function(scope: Construct, table: WorkTable, deployment: Deployment) -> iam.IGrantable:
    if deployment.code is None:
        raise ConfigurationError(
            "a Lambda function needs code=FOLDER with your modules and their dependencies: "
            "pip install --target FOLDER . --platform manylinux2014_aarch64 --only-binary=:all:"
        )
    every = Duration.minutes(deployment.minutes)
    return DrainFunction(scope, "Worker", table=table, code=deployment.code, app=deployment.app, every=every)


_WORKERS = {Mode.SERVICE: _service, Mode.SCHEDULED: _scheduled, Mode.FUNCTION: _function}


def _image(deployment: Deployment) -> ecs.ContainerImage:
    if deployment.image is None:
        raise ConfigurationError("a container needs an image")
    return deployment.image


def _grant_own_items(worker: iam.IGrantable, table: WorkTable, own_keys: Sequence[str]) -> None:
    """What job bodies do with their own items beside ours."""
    conditions: Mapping[str, Any] = {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(own_keys)},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
    actions = ["BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"]
    worker.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(
            actions=[f"dynamodb:{action}" for action in actions],
            resources=[table.table.table_arn],
            conditions=conditions,
        )
    )
