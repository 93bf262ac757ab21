"""A Lambda function that does what is due: for loads too small for a container."""

from __future__ import annotations

from collections.abc import Mapping

import jsii
from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from dynadurable.storage.environment import APP, EMF, METRICS
from dynadurable_cdk.acknowledge import acknowledge
from dynadurable_cdk.table import WorkTable
from dynadurable_cdk.tick import TICK_RETRIES, add_schedule, cadence, retry_window

HANDLER = "dynadurable.aws_lambda.handler"


@jsii.implements(iam.IGrantable)
class DrainFunction(Construct):
    """A function that starts every so often and runs jobs until nothing is due or its time is short.

    >>> DrainFunction(  # doctest: +SKIP
    ...     stack, "Drain", table=table, code=lambda_.Code.from_asset("build"), app="shop.jobs:app",
    ...     every=Duration.minutes(5),
    ... )

    ``code`` is a folder or zip with your modules and ``pip install --target``-ed dependencies, or an image
    (``runtime=lambda_.Runtime.FROM_IMAGE`` with ``Code.from_asset_image``). A body that outlasts the function is cut
    off and goes on at its checkpoint in the next one, so keep bodies or their steps well under ``timeout``.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        code: lambda_.Code,
        app: str,
        every: Duration | None = None,
        cron: str | None = None,
        timezone: str = "Etc/UTC",
        timeout: Duration | None = None,
        memory_mib: int = 512,
        runtime: lambda_.Runtime = lambda_.Runtime.PYTHON_3_13,
        architecture: lambda_.Architecture = lambda_.Architecture.ARM_64,
        reserved_concurrency: int | None = None,
        environment: Mapping[str, str] | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        super().__init__(scope, id)
        expression = cadence(every, cron, timezone)
        self.log_group = logs.LogGroup(self, "Logs", retention=log_retention, removal_policy=RemovalPolicy.DESTROY)
        self.function = lambda_.Function(
            self,
            "Function",
            code=code,
            runtime=runtime,
            handler=lambda_.Handler.FROM_IMAGE if runtime == lambda_.Runtime.FROM_IMAGE else HANDLER,
            architecture=architecture,
            timeout=timeout or Duration.minutes(5),
            memory_size=memory_mib,
            reserved_concurrent_executions=reserved_concurrency,
            environment={**table.environment(), APP: app, METRICS: EMF, **(environment or {})},
            role=_function_role(self, self.log_group),
            log_group=self.log_group,
            # A tick that failed is not repeated: the next tick does the same work.
            retry_attempts=0,
        )
        acknowledge(
            self.function,
            {"AwsSolutions-L1": "Python 3.13 is the newest that dynadurable is tested with; runtime= takes another."},
        )
        table.grant_work(self.function)
        self.schedule = add_schedule(
            self,
            expression=expression,
            target=targets.LambdaInvoke(
                self.function,
                role=_starter_role(self, self.function),
                retry_attempts=TICK_RETRIES,
                max_event_age=retry_window(every),
            ),
            why="dynadurable drain: start a function",
        )

    @property
    @jsii.member(jsii_name="grantPrincipal")
    def grant_principal(self) -> iam.IPrincipal:
        """The role that the job bodies run as."""
        return self.function.grant_principal


def _function_role(scope: Construct, log_group: logs.LogGroup) -> iam.Role:
    """A role that writes to its own log group, instead of AWS's ready-made one that writes to all."""
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group.grant_write(role)
    return role


def _starter_role(scope: Construct, function: lambda_.Function) -> iam.IRole:
    """A role that may start this function, and not every version of it."""
    stack = Stack.of(scope)
    principal = iam.ServicePrincipal(
        "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
    )
    role = iam.Role(scope, "StarterRole", assumed_by=principal)
    role.add_to_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn]))
    return role.without_policy_updates()
