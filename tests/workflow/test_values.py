"""First run and replay see the same value of the same type, or it is refused before it is recorded."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import App, Retry
from dynadurable.errors import StepFailedError
from dynadurable.storage.items import DEAD, SUCCEEDED
from dynadurable.workflow.context import WorkflowContext
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Define, Rig

DAY = timedelta(days=1)

KEPT: dict[str, Any] = {
    "none": None,
    "zero": 0,
    "false": False,
    "empty text": "",
    "empty list": [],
    "empty bytes": b"",
    "empty set": set(),
    "tuple": (1, 2),
    "int keys": {1: "passed", 2: "failed"},
    "bytes": b"\x00\xff",
    "set": {"x"},
    "text": "a\u0000b\u001f\u2028 \U0001f469‍\U0001f467 é",
    "instant": datetime(2027, 1, 15, 12, tzinfo=UTC),
    "large": "x" * 450_000,
    "large and random": random.Random(1).randbytes(200_000),
    "over the inline size": [random.Random(2).random() for _ in range(100)],
}


def returns(value: Any, seen: list[Any], *, count: int = 1) -> Define:
    def define(app: App, rig: Rig) -> None:
        def body() -> Any:
            rig.note("body")
            return value

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> None:
            got = [ctx.step(body, retry=Retry(max_attempts=5, delay=timedelta())) for _ in range(count)]
            seen.append(got)
            ctx.sleep(timedelta(hours=1))

    return define


@pytest.mark.parametrize("name", list(KEPT))
def test_a_value_is_the_same_on_replay(make_rig: MakeRig, name: str) -> None:
    """PUB-25, 26, 27, 28, 30, 31, 44."""
    seen: list[Any] = []
    rig = make_rig(returns(KEPT[name], seen, count=2))
    rig.start("flow")
    rig.finish()
    assert rig.effects["body"] == 2
    assert len(seen) == 2
    for got in seen:
        assert got == [KEPT[name], KEPT[name]]
        assert type(got[0]) is type(KEPT[name])


def test_nan_and_infinity_come_back(make_rig: MakeRig) -> None:
    """PUB-24."""
    seen: list[Any] = []
    rig = make_rig(returns({"score": math.nan, "hi": math.inf, "lo": -math.inf}, seen))
    rig.start("flow")
    rig.finish()
    assert [math.isnan(got[0]["score"]) for got in seen] == [True, True]
    assert [(got[0]["hi"], got[0]["lo"]) for got in seen] == [(math.inf, -math.inf)] * 2


def test_what_one_caller_changes_another_does_not_see(make_rig: MakeRig) -> None:
    """PUB-58: each is given a value of its own, in the first run as on replay."""
    shared: list[int] = [1]
    seen: list[Any] = []

    def define(app: App, rig: Rig) -> None:
        @app.workflow
        def flow(ctx: WorkflowContext, given: list[int]) -> None:
            got = ctx.step(lambda: shared, name="shared")
            got.append(2)
            given.append(3)
            seen.append((list(got), list(shared), list(given)))
            ctx.sleep(timedelta(hours=1))

    rig = make_rig(define)
    rig.start("flow", [0])
    rig.finish()
    assert seen == [([1, 2], [1], [0, 3])] * 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "body: object"),
        ({"a": [lambda: 1]}, "body.a[0]"),
        (random.Random(3).randbytes(450_000), "the limit is 390,000 bytes"),
    ],
)
def test_what_cannot_be_kept_fails_the_step_after_one_call(make_rig: MakeRig, value: Any, words: str) -> None:
    """PUB-24, 26, 31: permanent, so the body is called once and not five times; nothing says that it was done."""
    rig = make_rig(returns(value, []))
    rig.start("flow")
    rig.finish()
    assert rig.effects["body"] == 1
    assert rig.run().state == DEAD
    assert words in rig.run().error or words in rig.failure().message
    assert rig.told() == ["step body: failed"]


def test_what_cannot_be_kept_may_be_handled(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            try:
                ctx.step(object, name="body")
            except StepFailedError as error:
                return str(error.failure.type).rpartition(".")[2]
            return "kept"

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.result() == "PayloadRefusedError"
    assert rig.run().state == SUCCEEDED


def test_a_large_input_lies_beside_the_run(make_rig: MakeRig) -> None:
    text = random.Random(4).randbytes(100_000)
    seen: list[int] = []

    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext, data: bytes) -> int:
            ctx.sleep(timedelta(hours=1))
            seen.append(len(data))
            return ctx.step(len, data)

    rig = make_rig(define)
    rig.start("flow", text)
    assert rig.run().input is None
    assert len(rig.outside.app.run(rig.notes["run_id"]).info().arguments()["data"]) == 100_000
    rig.finish()
    assert rig.result() == 100_000
    assert all(item["sk"]["S"] == "run" or "ttl" in item for item in rig.rows("run"))
