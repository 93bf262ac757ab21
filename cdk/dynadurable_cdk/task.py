"""The container that every long-lived and every scheduled worker runs in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_logs as logs
from constructs import Construct

from dynadurable.errors import ConfigurationError
from dynadurable_cdk.acknowledge import acknowledge
from dynadurable_cdk.table import WorkTable

MAX_STOP_SECONDS = 120
"""Fargate kills a container this long after SIGTERM, whatever it was asked for."""
NEVER_IN_AN_IMAGE = ("**/.git", "**/.venv*", "**/__pycache__", "**/cdk.out", "**/node_modules")
_PLATFORMS = {
    "ARM64": ecr_assets.Platform.LINUX_ARM64,
    "X86_64": ecr_assets.Platform.LINUX_AMD64,
}


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """What one container gets: its size, its machine, and what its environment holds beside the table's name.

    ``cpu`` counts 1/1024 of a processor, ``memory_mib`` MiB; AWS lists which pairs Fargate takes. ``architecture``
    is ``ARM64`` (Graviton, a fifth cheaper) or ``X86_64``; the image must have been built for it. ``spot`` runs on
    spare capacity, about 70 % cheaper and stopped with two minutes' notice, which durable work does not mind.
    """

    cpu: int = 256
    memory_mib: int = 512
    architecture: str = "ARM64"
    spot: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, ecs.Secret] = field(default_factory=dict)
    log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH

    def __post_init__(self) -> None:
        if self.architecture not in _PLATFORMS:
            raise ConfigurationError(f"architecture is ARM64 or X86_64, not {self.architecture!r}")


def image_from(
    directory: str | Path,
    *,
    file: str = "Dockerfile",
    architecture: str = "ARM64",
    build_args: Mapping[str, str] | None = None,
    exclude: Sequence[str] = NEVER_IN_AN_IMAGE,
) -> ecs.ContainerImage:
    """An image that ``cdk deploy`` builds from a Dockerfile, for the machine that it will run on.

    Docker is needed when it is deployed, not when the template is made. ``exclude`` has the patterns of a
    ``.dockerignore`` file; one beside the Dockerfile counts too.

    >>> WorkerService(stack, "Worker", image=image_from("."), ...)  # doctest: +SKIP
    """
    return ecs.ContainerImage.from_asset(
        str(directory),
        file=file,
        platform=_PLATFORMS[architecture],
        build_args=dict(build_args or {}),
        exclude=list(exclude),
        ignore_mode=IgnoreMode.DOCKER,
    )


class WorkerTask(Construct):
    """A Fargate task that runs one ``dynadurable`` command on the table, as a role that may do just that.

    ``definition.task_role`` is the role; grant it what your job bodies need.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        table: WorkTable,
        image: ecs.ContainerImage,
        command: Sequence[str],
        settings: TaskSettings,
        stop_timeout: Duration | None = None,
        environment: Mapping[str, str] | None = None,
        health_check: ecs.HealthCheck | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.log_group = logs.LogGroup(
            self, "Logs", retention=settings.log_retention, removal_policy=RemovalPolicy.DESTROY
        )
        self.definition = ecs.FargateTaskDefinition(
            self,
            "Definition",
            cpu=settings.cpu,
            memory_limit_mib=settings.memory_mib,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.of(settings.architecture),
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
        )
        self.container = self.definition.add_container(
            "Worker",
            image=image,
            # Exec form: the command is itself the process that gets SIGTERM, passed on by the init process, which
            # also buries what job bodies start and leave behind.
            entry_point=["dynadurable"],
            command=list(command),
            linux_parameters=ecs.LinuxParameters(self, "Linux", init_process_enabled=True),
            environment={**table.environment(), **(environment or {}), **settings.environment},
            secrets=dict(settings.secrets),
            logging=ecs.LogDrivers.aws_logs(stream_prefix="dynadurable", log_group=self.log_group),
            stop_timeout=stop_timeout,
            health_check=health_check,
        )
        acknowledge(
            self.definition,
            {"AwsSolutions-ECS2": "The environment holds names of the table and its keys; secrets have their own way."},
        )
        acknowledge(
            self.definition.obtain_execution_role(),
            {"AwsSolutions-IAM5[Resource::*]": "ecr:GetAuthorizationToken, for which AWS knows no narrower resource."},
        )


def egress_only_group(scope: Construct, vpc: ec2.IVpc) -> ec2.SecurityGroup:
    """A security group that lets everything out and nothing in."""
    return ec2.SecurityGroup(
        scope, "SecurityGroup", vpc=vpc, description="dynadurable worker: nothing comes in", allow_all_outbound=True
    )


def spot_first(settings: TaskSettings) -> list[ecs.CapacityProviderStrategy] | None:
    """The capacity strategy of these settings; ``None`` for plain Fargate."""
    return [ecs.CapacityProviderStrategy(capacity_provider="FARGATE_SPOT", weight=1)] if settings.spot else None
