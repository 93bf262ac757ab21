"""Where containers run: a network without a NAT gateway, or the user's own."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from dynadurable_cdk.acknowledge import acknowledge

_SHARED_CLUSTER = "DynadurableCluster"


class WorkNetwork(Construct):
    """Public subnets in two zones, gateway endpoints for DynamoDB and S3, and no NAT gateway.

    Nothing in it costs anything while it stands idle. Each running task has a public address (AWS charges for it by
    the hour) to fetch its image and send its logs, and a security group that lets nothing in. DynamoDB is reached
    through its endpoint, so that traffic stays inside AWS.
    """

    def __init__(self, scope: Construct, id: str, *, max_azs: int = 2) -> None:
        super().__init__(scope, id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=max_azs,
            nat_gateways=0,
            subnet_configuration=[ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC)],
            gateway_endpoints={
                "DynamoDb": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
            },
            # That would bring a Lambda function with rights of its own; nothing here uses the default group.
            restrict_default_security_group=False,
        )
        acknowledge(self.vpc, {"AwsSolutions-VPC7": "Flow logs cost by the gigabyte; add them with vpc.add_flow_log."})


def cluster_for(
    scope: Construct, *, cluster: ecs.ICluster | None, vpc: ec2.IVpc | None, spot: bool = False
) -> ecs.ICluster:
    """The given cluster, else one in the given network, else the stack's own, made when it is first asked for.

    A given cluster must offer the ``FARGATE_SPOT`` capacity provider itself if it is to be used.
    """
    if cluster is not None:
        return cluster
    made = _new_cluster(scope, "Cluster", vpc) if vpc is not None else _shared_cluster(Stack.of(scope))
    if spot:
        made.enable_fargate_capacity_providers()
    return made


def _shared_cluster(stack: Stack) -> ecs.Cluster:
    shared = stack.node.try_find_child(_SHARED_CLUSTER)
    if isinstance(shared, ecs.Cluster):
        return shared
    return _new_cluster(stack, _SHARED_CLUSTER, WorkNetwork(stack, "DynadurableNetwork").vpc)


def _new_cluster(scope: Construct, id: str, vpc: ec2.IVpc) -> ecs.Cluster:
    cluster = ecs.Cluster(scope, id, vpc=vpc)
    acknowledge(
        cluster,
        {"AwsSolutions-ECS4": "Container Insights costs by the metric; workers report what matters themselves."},
    )
    return cluster


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Which subnets tasks go to, and whether they need a public address there to reach AWS at all."""

    subnets: ec2.SubnetSelection
    assign_public_ip: bool


def place(vpc: ec2.IVpc, subnets: ec2.SubnetSelection | None, assign_public_ip: bool | None) -> Placement:
    """The given subnets, else private ones that lead out, else public ones, else isolated ones.

    In an isolated subnet tasks reach AWS only through interface endpoints, which are the network owner's to make.
    """
    chosen = subnets or ec2.SubnetSelection(subnet_type=_subnet_type(vpc))
    if assign_public_ip is None:
        assign_public_ip = vpc.select_subnets(
            subnet_type=chosen.subnet_type,
            subnet_group_name=chosen.subnet_group_name,
            availability_zones=chosen.availability_zones,
            one_per_az=chosen.one_per_az,
            subnet_filters=chosen.subnet_filters,
            subnets=chosen.subnets,
        ).has_public
    return Placement(subnets=chosen, assign_public_ip=assign_public_ip)


def _subnet_type(vpc: ec2.IVpc) -> ec2.SubnetType:
    if vpc.private_subnets:
        return ec2.SubnetType.PRIVATE_WITH_EGRESS
    if vpc.public_subnets:
        return ec2.SubnetType.PUBLIC
    return ec2.SubnetType.PRIVATE_ISOLATED
