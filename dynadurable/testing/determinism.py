"""For users' tests: workflows whose code would not be the same on replay fail the test, with file and line."""

from __future__ import annotations

from dynadurable.app import App
from dynadurable.workflow.check import check_workflows


def assert_deterministic(app: App) -> None:
    """Fail with what ``dynadurable check`` finds in the app's workflows.

    >>> def test_workflows_are_deterministic():
    ...     assert_deterministic(App("shop"))
    """
    found = check_workflows(app.registry.jobs())
    assert not found, "\n".join(["workflows must not depend on this:", *map(str, found)])
