"""The commands about workflows, on the memory store."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dynadurable import App, WorkflowContext
from dynadurable.cli.root import root
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig

HOUR = timedelta(hours=1)


def define(app: App, rig: Rig) -> None:
    def submit(token: str) -> None:
        rig.notes["token"] = token

    @app.workflow(keep_result=timedelta(days=1))
    def flow(ctx: WorkflowContext) -> Any:
        approval = ctx.callback("approval", timeout=HOUR)
        ctx.step(submit, approval.token)
        return [approval.result(), ctx.wait_event("go", timeout=HOUR)]


@pytest.fixture
def rig(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    made = make_rig(define)
    module = ModuleType("flows_of_the_test")
    module.__spec__ = ModuleSpec(module.__name__, None)
    module.app = made.outside.app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def run_command(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(root, list(words), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


APP = ("--app", "flows_of_the_test:app")


def test_a_workflow_is_followed_and_told_from_the_shell(rig: Rig) -> None:
    run = rig.start("flow")
    worker = rig.process()
    worker.work()
    shown = run_command("runs", "show", run.id, *APP).output
    assert "Timeline:" in shown
    assert "submit" in shown
    told = json.loads(run_command("runs", "show", run.id, "--json", *APP).output)
    assert [(one["kind"], one["state"]) for one in told["timeline"]] == [("callback", "began"), ("step", "done")]
    run_command("callback", "heartbeat", rig.notes["token"], *APP)
    run_command("callback", "complete", rig.notes["token"], "--json", '{"ok": true}', *APP)
    run_command("callback", "fail", rig.notes["token"], "too late", *APP, code=1)
    assert "Sent." in run_command("send", run.id, "go", "--json", "[1, 2]", *APP).output
    worker.work()
    assert run.result() == [{"ok": True}, [1, 2]]


def test_live_runs_are_replayed_from_the_shell(rig: Rig) -> None:
    run = rig.start("flow")
    rig.process().work()
    assert "1 of 1 runs fit." in run_command("replay", "--all", *APP).output
    [told] = json.loads(run_command("replay", run.id, "--json", *APP).output)
    assert told["outcome"] == "fits"
    run_command("replay", *APP, code=2)


def test_workflows_are_checked_from_the_shell(rig: Rig) -> None:
    assert "1 workflow read, nothing found." in run_command("check", "flows_of_the_test:app").output
    assert json.loads(run_command("check", "flows_of_the_test:app", "--json").output) == []
