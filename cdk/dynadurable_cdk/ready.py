"""From the settings in ``cdk.json`` and on the command line to the ready stacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aws_cdk import App, IgnoreMode
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_lambda as lambda_

from dynadurable.errors import ConfigurationError
from dynadurable_cdk.stacks import Deployment, Mode, add_stacks
from dynadurable_cdk.task import NEVER_IN_AN_IMAGE, image_from


def build_app(folder: Path, **app_settings: Any) -> App:
    """The app whose ``cdk.json`` lies in that folder, with both stacks.

    The command line hands the values of ``cdk.json`` to the app, with those of ``-c`` over them; without it they are
    read here, so that settings and feature flags are the same either way.

    >>> build_app(Path("cdk")).synth()  # doctest: +SKIP
    """
    app = App(context=context_of(folder), analytics_reporting=False, **app_settings)
    add_stacks(app, deployment_of(app, folder))
    return app


def context_of(folder: Path) -> dict[str, Any]:
    """What ``cdk.json`` says: settings and feature flags."""
    context: dict[str, Any] = json.loads((folder / "cdk.json").read_text(encoding="utf-8"))["context"]
    return context


def deployment_of(app: App, folder: Path) -> Deployment:
    """What the context says, checked.

    Raises:
        ConfigurationError: a value that cannot be.
    """

    def text(name: str) -> str:
        return str(app.node.try_get_context(name) or "")

    mode = text("mode")
    if mode not in set(Mode):
        raise ConfigurationError(f"mode is one of {', '.join(Mode)}, not {mode!r}")
    return Deployment(
        app=text("app"),
        mode=Mode(mode),
        image=_image(app, folder) if mode != Mode.FUNCTION else None,
        code=_code(folder / text("code")) if text("code") else None,
        queues=_names(text("queues")),
        own_keys=_names(text("own_keys")),
        table_name=text("table_name") or None,
        prefix=text("prefix"),
        max_tasks=_number("max_tasks", text("max_tasks")),
        minutes=_number("minutes", text("minutes")),
    )


def _image(app: App, folder: Path) -> ecs.ContainerImage:
    def text(name: str) -> str:
        return str(app.node.try_get_context(name) or "")

    if text("image"):
        return ecs.ContainerImage.from_registry(text("image"))
    return image_from(
        folder / text("directory"),
        file=text("dockerfile"),
        build_args={"INSTALL": text("install"), "CODE": text("source")},
    )


def _code(folder: Path) -> lambda_.Code:
    return lambda_.Code.from_asset(str(folder), exclude=list(NEVER_IN_AN_IMAGE), ignore_mode=IgnoreMode.DOCKER)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigurationError(f"{name} is a whole number from 1 on, not {text!r}")
    return int(text)
