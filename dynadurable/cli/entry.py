"""Where the ``dynadurable`` command begins."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import ExtraMissingError

NEEDED = ("click", "rich")


def main() -> None:
    """Run the command that ``sys.argv`` names, and exit with its code."""
    for package in NEEDED:
        if find_spec(package) is None:
            print(f"Error: the dynadurable command needs {ExtraMissingError(package, extra='cli')}", file=sys.stderr)
            sys.exit(1)
    from .root import root

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does, so that `module:app` finds what lies here
    root(prog_name="dynadurable")
