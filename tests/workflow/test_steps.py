"""Steps: recorded once, tried again durably, at most once where that is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dynadurable import App, ConfigurationError, Fail, InputRefusedError, Retry, Snooze
from dynadurable.errors import StepFailedError, StepInterruptedError
from dynadurable.storage.items import DEAD, SUCCEEDED
from dynadurable.workflow.context import WorkflowContext
from tests.integration.stepping import Died, Fault
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Define, Rig

DAY = timedelta(days=1)


def one_step(body: Callable[..., Any], **options: Any) -> Define:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, retry=Retry.none())
        def flow(ctx: WorkflowContext) -> Any:
            return ctx.step(body, rig, name="body", **options)

    return define


def test_a_step_gives_its_result(make_rig: MakeRig) -> None:
    rig = make_rig(one_step(lambda rig: rig.note("body")))
    rig.start("flow")
    rig.finish()
    assert rig.result() == 1
    assert rig.told() == ["step body: done"]


def test_a_repeated_step_is_known_by_its_number(make_rig: MakeRig) -> None:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> list[int]:
            return [ctx.step(rig.note, "one") for _ in range(3)]

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.result() == [1, 2, 3]
    assert rig.told() == ["step note: done", "step note#2: done", "step note#3: done"]


def test_what_fails_is_tried_again_later_without_holding_a_worker(make_rig: MakeRig) -> None:
    """PUB-54: three tries, two waits of ten seconds, and an error that lists all three causes."""

    def body(rig: Rig) -> None:
        raise ValueError(f"no {rig.note('body')}")

    rig = make_rig(one_step(body, retry=Retry.fixed(timedelta(seconds=10), max_attempts=3)))
    began = rig.clock.now()
    rig.start("flow")
    worker = rig.process()
    assert worker.work() == ["parked"]
    assert [(one.token, one.lease_until_ms) for one in worker.marks()] == [(None, None)]
    rig.finish(worker)
    assert rig.clock.now() - began == timedelta(seconds=20)
    assert rig.effects["body"] == 3
    assert rig.run().state == DEAD
    *_, end = rig.records()
    assert [attempt["message"] for attempt in _decoded(end.value)] == ["no 1", "no 2", "no 3"]


def test_a_step_may_say_not_yet(make_rig: MakeRig) -> None:
    def body(rig: Rig) -> str:
        if rig.note("body") < 4:
            raise Snooze(timedelta(minutes=1))
        return "now"

    rig = make_rig(one_step(body, retry=Retry.none()))
    began = rig.clock.now()
    rig.start("flow")
    rig.finish()
    assert rig.result() == "now"
    assert rig.clock.now() - began == timedelta(minutes=3)


def test_fail_is_final(make_rig: MakeRig) -> None:
    def body(rig: Rig) -> None:
        rig.note("body")
        raise Fail("stolen")

    rig = make_rig(one_step(body, retry=Retry(max_attempts=5)))
    rig.start("flow")
    rig.finish()
    assert rig.effects["body"] == 1
    assert rig.run().state == DEAD
    assert "stolen" in rig.run().error


def test_a_failed_step_is_the_same_error_on_replay(make_rig: MakeRig) -> None:
    """PUB-29: an error class with keyword-only arguments is told by type, message and traceback, on both occasions."""

    class ApiError(Exception):
        def __init__(self, *, status: int, detail: str) -> None:
            super().__init__(detail)
            self.status = status

    seen: list[Any] = []

    def define(app: App, rig: Rig) -> None:
        def call() -> None:
            rig.note("call")
            raise ApiError(status=503, detail="x")

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            try:
                ctx.step(call, retry=Retry.none())
            except StepFailedError as error:
                kinds = (error.is_a(ApiError), error.is_a(Exception), error.is_a(ValueError))
                seen.append(
                    (
                        str(error),
                        error.failure.type,
                        error.failure.message,
                        "raise ApiError" in error.failure.traceback,
                        kinds,
                    )
                )
            ctx.sleep(timedelta(hours=1))
            return "went on"

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.result() == "went on"
    assert rig.effects["call"] == 1
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0][1].endswith("ApiError")
    assert seen[0][2:] == ("x", True, (True, True, False))


def test_the_outside_api_gets_the_same_key_in_every_try(make_rig: MakeRig) -> None:
    keys: list[str] = []

    def define(app: App, rig: Rig) -> None:
        def charge(amount: int, *, idempotency_key: str) -> int:
            keys.append(idempotency_key)
            if len(keys) < 3:
                raise TimeoutError
            return amount

        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> list[int]:
            return [ctx.step(charge, 5), ctx.step(charge, 6)]

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.result() == [5, 6]
    assert len(keys) == 4
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]


def test_a_key_that_is_given_is_left_alone(make_rig: MakeRig) -> None:
    def charge(*, idempotency_key: str) -> str:
        return idempotency_key

    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY)
        def flow(ctx: WorkflowContext) -> str:
            return ctx.step(charge, idempotency_key="mine")

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    assert rig.result() == "mine"


def test_a_body_that_is_too_slow_has_failed(make_rig: MakeRig) -> None:
    def body(rig: Rig) -> str:
        if rig.note("body") == 1:
            rig.clock.advance(timedelta(seconds=6))
            rig.notes["hold"].wait(30)
        return "quick"

    rig = make_rig(one_step(body, timeout=timedelta(seconds=5), retry=Retry(max_attempts=2)))
    rig.notes["hold"] = threading.Event()
    rig.start("flow")
    rig.finish()
    rig.notes["hold"].set()
    assert rig.result() == "quick"
    assert rig.effects["body"] == 2


# --- at most once ---------------------------------------------------------------------------------


def at_most_once(app: App, rig: Rig) -> None:
    def charge() -> str:
        rig.note("charge")
        return "charged"

    @app.workflow(keep_result=DAY)
    def flow(ctx: WorkflowContext) -> str:
        try:
            return ctx.step(charge, once=True)
        except StepInterruptedError:
            return ctx.step(ask_somebody)

    def ask_somebody() -> str:
        rig.note("asked")
        return "asked"


def test_an_interrupted_once_step_is_not_called_again(make_rig: MakeRig) -> None:
    rig = make_rig(at_most_once)
    rig.start("flow")
    dying = rig.process(Fault(nth=3, applied=False, dies=True))  # claim, intent, record
    with pytest.raises(Died):
        dying.work()
    assert rig.effects["charge"] == 1
    rig.finish()
    assert rig.effects == {"charge": 1, "asked": 1}
    assert rig.result() == "asked"


def test_a_once_step_whose_intent_was_lost_is_called_by_the_next(make_rig: MakeRig) -> None:
    rig = make_rig(at_most_once)
    rig.start("flow")
    with pytest.raises(Died):
        rig.process(Fault(nth=2, applied=False, dies=True)).work()
    assert rig.effects["charge"] == 0
    rig.finish()
    assert rig.result() == "charged"
    assert rig.effects["charge"] == 1


def test_once_and_retries_exclude_each_other(make_rig: MakeRig) -> None:
    rig = make_rig(one_step(lambda rig: rig.note("body"), once=True, retry=Retry(max_attempts=3)))
    rig.start("flow")
    rig.finish()
    assert rig.effects["body"] == 0
    assert "once=True" in rig.run().error


# --- refused before anything is done --------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda ctx: ctx.step(5), ConfigurationError, "function to call"),
        (lambda ctx: ctx.step(lambda: 1), ConfigurationError, "lambda"),
        (lambda ctx: ctx.step(len), InputRefusedError, "missing a required argument"),
        (lambda ctx: ctx.step(len, [], retries=3), InputRefusedError, "unexpected keyword"),
        (lambda ctx: ctx.step(len, [], timeout=timedelta(0)), ConfigurationError, "timeout"),
        (lambda ctx: ctx.sleep(timedelta(seconds=-1)), InputRefusedError, "negative"),
        (lambda ctx: ctx.wait_event(""), ConfigurationError, "non-empty"),
        (lambda ctx: ctx.start(len), ConfigurationError, "ctx.step"),
        (lambda ctx: ctx.map(len, [[1]], max_concurrency=0), ConfigurationError, "max_concurrency"),
        (lambda ctx: ctx.map(len, {1, 2}), ConfigurationError, "order of a set"),
        (lambda ctx: ctx.commit(), InputRefusedError, "1 to 99"),
        (lambda ctx: ctx.commit("put"), InputRefusedError, "transact_write_items"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused(
    make_rig: MakeRig, call: Callable[[WorkflowContext], Any], error: type[Exception], words: str
) -> None:
    seen: list[Exception] = []

    def define(app: App, rig: Rig) -> None:
        @app.workflow
        def flow(ctx: WorkflowContext) -> None:
            try:
                call(ctx)
            except Exception as refused:  # noqa: BLE001 - looked at below
                seen.append(refused)

    rig = make_rig(define)
    rig.start("flow")
    rig.finish()
    [refused] = seen
    assert isinstance(refused, error)
    assert words in str(refused)
    assert rig.run().state == SUCCEEDED


def _decoded(value: bytes | None) -> Any:
    from dynadurable.model import codec

    return codec.decode(value or b"")
