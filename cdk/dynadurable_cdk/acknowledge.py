"""Findings of cdk-nag that are meant to be so, each with its reason, said where the construct is made."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Say of each rule, by its id, why the construct is as it is."""
    Validations.of(construct).acknowledge(*(Acknowledgment(id=rule, reason=why) for rule, why in reasons.items()))
