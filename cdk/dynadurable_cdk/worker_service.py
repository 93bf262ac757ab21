"""Long-lived workers: an ECS service on Fargate that stops gracefully and grows with the backlog."""

from __future__ import annotations

import jsii
from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from dynadurable.errors import ConfigurationError
from dynadurable.storage.environment import EMF, HEARTBEAT_FILE, METRICS
from dynadurable_cdk.autoscale import Backlog, scale_on_backlog
from dynadurable_cdk.network import cluster_for, place
from dynadurable_cdk.table import WorkTable
from dynadurable_cdk.task import MAX_STOP_SECONDS, TaskSettings, WorkerTask, egress_only_group, spot_first

HEARTBEAT_PATH = "/tmp/dynadurable-heartbeat"  # noqa: S108 - inside the container, which has no other user
STALE_SECONDS = 120
"""A worker's loop goes round at least every 20 s; six misses and it is hung."""
STOP_MARGIN_SECONDS = 5
"""What the process has after its grace period to hand back what is unfinished and exit."""


@jsii.implements(iam.IGrantable)
class WorkerService(Construct):
    """Workers that run all the time.

    >>> service = WorkerService(  # doctest: +SKIP
    ...     stack, "Worker", table=table, image=image_from("."), app="shop.jobs:app", autoscale=Backlog(max_tasks=20)
    ... )
    >>> bucket.grant_read(service)  # what the job bodies need  # doctest: +SKIP

    On SIGTERM a worker claims nothing more, gives its job bodies ``grace`` to end, and hands the rest back; the
    container's stop timeout is a little longer. A deployment that does not come up is rolled back. A worker that
    has not been heard of for two minutes is replaced.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        image: ecs.ContainerImage,
        app: str,
        desired_tasks: int = 1,
        autoscale: Backlog | None = None,
        grace: Duration | None = None,
        concurrency: int | None = None,
        settings: TaskSettings | None = None,
        cluster: ecs.ICluster | None = None,
        vpc: ec2.IVpc | None = None,
        subnets: ec2.SubnetSelection | None = None,
        assign_public_ip: bool | None = None,
    ) -> None:
        super().__init__(scope, id)
        grace_seconds = _checked_grace_seconds(grace)
        settings = settings or TaskSettings()
        command = ["worker", app, "--grace", str(grace_seconds)]
        if concurrency is not None:
            command += ["--concurrency", str(concurrency)]
        self.task = WorkerTask(
            self,
            "Task",
            table=table,
            image=image,
            command=command,
            settings=settings,
            stop_timeout=Duration.seconds(grace_seconds + STOP_MARGIN_SECONDS),
            environment={HEARTBEAT_FILE: HEARTBEAT_PATH, METRICS: EMF},
            health_check=_polls_still(),
        )
        table.grant_work(self.task.definition.task_role)
        self.cluster = cluster_for(self, cluster=cluster, vpc=vpc, spot=settings.spot)
        placement = place(self.cluster.vpc, subnets, assign_public_ip)
        self.service = ecs.FargateService(
            self,
            "Service",
            cluster=self.cluster,
            task_definition=self.task.definition,
            # A scaled service keeps the size it has when it is deployed again.
            desired_count=None if autoscale else desired_tasks,
            # Two versions may run side by side: leases keep them apart.
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            security_groups=[egress_only_group(self, self.cluster.vpc)],
            vpc_subnets=placement.subnets,
            assign_public_ip=placement.assign_public_ip,
            capacity_provider_strategies=spot_first(settings),
        )
        if autoscale:
            scale_on_backlog(self.service, table, autoscale)

    @property
    @jsii.member(jsii_name="grantPrincipal")
    def grant_principal(self) -> iam.IPrincipal:
        """The role that the job bodies run as."""
        return self.task.definition.task_role.grant_principal


def _checked_grace_seconds(grace: Duration | None) -> int:
    seconds = int(grace.to_seconds()) if grace else 25
    longest = MAX_STOP_SECONDS - STOP_MARGIN_SECONDS
    if not 0 <= seconds <= longest:
        raise ConfigurationError(
            f"grace is {seconds} s, but Fargate stops a container {MAX_STOP_SECONDS} s after SIGTERM: "
            f"use at most {longest} s; longer bodies are handed back and go on at their checkpoint"
        )
    return seconds


def _polls_still() -> ecs.HealthCheck:
    """Healthy while the heartbeat file is young. Plain Python, so that a check costs next to nothing."""
    program = (
        f"import os,sys,time;sys.exit(time.time()-os.stat(os.environ['{HEARTBEAT_FILE}']).st_mtime>{STALE_SECONDS})"
    )
    return ecs.HealthCheck(
        command=["CMD", "python", "-c", program],
        interval=Duration.seconds(30),
        timeout=Duration.seconds(10),
        retries=3,
        start_period=Duration.seconds(60),
    )
