"""CDK tests: one group, so that one worker process starts one Node.js for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dynadurable.errors import ConfigurationError

HERE = Path(__file__).parent
NEED_NO_NODE = {"test_prerequisites.py", "test_dockerfile.py"}

try:
    import dynadurable_cdk  # noqa: F401 - says itself what is missing
except ConfigurationError as error:
    missing = str(error)
    if os.environ.get("CI") and find_spec("cdk_nag"):
        raise  # the development environment has everything
else:
    missing = ""


class ModuleThatCannotRun(pytest.Module):
    """Skipped as a whole: its imports would fail."""

    def collect(self) -> Iterator[Any]:
        pytest.skip(missing, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if missing and HERE in module_path.parents and module_path.name not in NEED_NO_NODE:
        made: pytest.Module = ModuleThatCannotRun.from_parent(parent, path=module_path)
        return made
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Called for the tests of this folder, before they are dealt out to processes."""
    item.add_marker(pytest.mark.cdk)
    item.add_marker(pytest.mark.xdist_group("cdk"))
    # The first of them unpacks the CDK library, once for a machine.
    item.add_marker(pytest.mark.timeout(300))
