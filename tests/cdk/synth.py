"""Templates out of constructs, in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack

from dynadurable_cdk.ready import build_app, context_of

CDK_FOLDER = Path(__file__).resolve().parents[2] / "cdk"
Template = Mapping[str, Any]


def template_of(build: Callable[[Stack], object], **stack_settings: Any) -> Template:
    """The template of one stack that holds what ``build`` puts into it, with the feature flags of the ready app."""
    with tempfile.TemporaryDirectory() as folder:
        app = App(context=context_of(CDK_FOLDER), analytics_reporting=False, outdir=folder)
        stack = Stack(app, "Stack", **stack_settings)
        build(stack)
        template: Template = app.synth().get_stack_by_name("Stack").template
        return template


def in_a_stack(look: Callable[[Stack], object], **stack_settings: Any) -> None:
    """Do something in a stack that is never synthesised."""
    look(Stack(App(context=context_of(CDK_FOLDER)), "Stack", **stack_settings))


def ready_templates(folder: Path, **context: str) -> dict[str, Template]:
    """The templates of the ready app, by stack, with these values given as on the command line."""
    assembly = build_app(CDK_FOLDER, outdir=str(folder), post_cli_context=context).synth()
    return {stack.stack_name: stack.template for stack in assembly.stacks}


def resources(template: Template, kind: str) -> list[dict[str, Any]]:
    """The properties of every resource of that type."""
    return [found.get("Properties", {}) for found in template["Resources"].values() if found["Type"] == kind]


def resource(template: Template, kind: str) -> dict[str, Any]:
    (only,) = resources(template, kind)
    return only


def policy_statements(template: Template) -> list[dict[str, Any]]:
    """Every statement of every policy, inline ones too."""
    documents = [policy["PolicyDocument"] for policy in resources(template, "AWS::IAM::Policy")]
    documents += [
        inline["PolicyDocument"]
        for role in resources(template, "AWS::IAM::Role")
        for inline in role.get("Policies", [])
    ]
    return [statement for document in documents for statement in document["Statement"]]


def outputs(template: Template) -> dict[str, Any]:
    return {name: output["Value"] for name, output in template.get("Outputs", {}).items()}
