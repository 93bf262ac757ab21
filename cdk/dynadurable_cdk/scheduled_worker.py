"""Containers that are started by the clock, do what is due, and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jsii
from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from dynadurable.storage.environment import EMF, METRICS
from dynadurable_cdk.network import cluster_for, place
from dynadurable_cdk.table import WorkTable
from dynadurable_cdk.task import MAX_STOP_SECONDS, TaskSettings, WorkerTask, egress_only_group, spot_first
from dynadurable_cdk.tick import TICK_RETRIES, add_schedule, cadence, drain_limit, retry_window


@jsii.implements(iam.IGrantable)
class ScheduledTask(Construct):
    """One ``dynadurable`` command in a container, by the clock; the base of the two below."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        image: ecs.ContainerImage,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        every: Duration | None = None,
        cron: str | None = None,
        timezone: str = "Etc/UTC",
        settings: TaskSettings | None = None,
        cluster: ecs.ICluster | None = None,
        vpc: ec2.IVpc | None = None,
        subnets: ec2.SubnetSelection | None = None,
        assign_public_ip: bool | None = None,
    ) -> None:
        super().__init__(scope, id)
        expression = cadence(every, cron, timezone)
        settings = settings or TaskSettings()
        self.task = WorkerTask(
            self,
            "Task",
            table=table,
            image=image,
            command=command,
            settings=settings,
            environment=environment,
            stop_timeout=Duration.seconds(MAX_STOP_SECONDS),
        )
        self.cluster = cluster_for(self, cluster=cluster, vpc=vpc, spot=settings.spot)
        placement = place(self.cluster.vpc, subnets, assign_public_ip)
        target = targets.EcsRunFargateTask(
            self.cluster,
            task_definition=self.task.definition,
            security_groups=[egress_only_group(self, self.cluster.vpc)],
            vpc_subnets=placement.subnets,
            assign_public_ip=placement.assign_public_ip,
            capacity_provider_strategies=spot_first(settings),
            retry_attempts=TICK_RETRIES,
            max_event_age=retry_window(every),
        )
        self.schedule = add_schedule(
            self, expression=expression, target=target, why=f"dynadurable {command[0]}: start a container"
        )

    @property
    @jsii.member(jsii_name="grantPrincipal")
    def grant_principal(self) -> iam.IPrincipal:
        """The role that the container runs as."""
        return self.task.definition.task_role.grant_principal


class ScheduledWorker(ScheduledTask):
    """A container that starts every so often, runs jobs until nothing is due, and ends.

    >>> ScheduledWorker(  # doctest: +SKIP
    ...     stack, "Nightly", table=table, image=image_from("."), app="shop.jobs:app", every=Duration.minutes(5)
    ... )

    Between two starts nothing runs and nothing is paid for. A drain that takes longer than that overlaps the next
    one, which is as safe as any two workers side by side. ``time_limit`` ends a drain; what it has not finished goes
    on at the next start.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        image: ecs.ContainerImage,
        app: str,
        every: Duration | None = None,
        cron: str | None = None,
        timezone: str = "Etc/UTC",
        time_limit: Duration | None = None,
        settings: TaskSettings | None = None,
        cluster: ecs.ICluster | None = None,
        vpc: ec2.IVpc | None = None,
        subnets: ec2.SubnetSelection | None = None,
        assign_public_ip: bool | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            table=table,
            image=image,
            command=["drain", app, "--timeout", str(drain_limit(every, time_limit))],
            environment={METRICS: EMF},
            every=every,
            cron=cron,
            timezone=timezone,
            settings=settings,
            cluster=cluster,
            vpc=vpc,
            subnets=subnets,
            assign_public_ip=assign_public_ip,
        )
        table.grant_work(self.task.definition.task_role)


class ScheduledCleaner(ScheduledTask):
    """A container that removes what has expired, once a day unless you say otherwise.

    Needed now and then where the table has native time to live, and regularly where it has none. It is the only
    thing that may scan the table.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        image: ecs.ContainerImage,
        every: Duration | None = None,
        settings: TaskSettings | None = None,
        cluster: ecs.ICluster | None = None,
        vpc: ec2.IVpc | None = None,
        subnets: ec2.SubnetSelection | None = None,
        assign_public_ip: bool | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            table=table,
            image=image,
            command=["clean"],
            every=every or Duration.days(1),
            settings=settings,
            cluster=cluster,
            vpc=vpc,
            subnets=subnets,
            assign_public_ip=assign_public_ip,
        )
        table.grant_clean(self.task.definition.task_role)
