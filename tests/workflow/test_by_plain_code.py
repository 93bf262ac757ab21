"""What the conformance table asks for, and what here is not an option of an operation but a line of the user's code.

AWS has a parameter for each of these: serialisers, at most once per retry, item namers, an operation that makes a
callback and hands it out. Code that is replayed can do the same with what it has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from dynadurable import App, Retry, WorkflowContext
from dynadurable.errors import CallbackFailedError, StepInterruptedError, WaitTimeoutError
from dynadurable.storage.items import DEAD
from dynadurable.workflow.waits import NotYet
from tests.integration.stepping import Died
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Rig
from tests.workflow.test_requirements import NONE, Code, played

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


# --- steps and groups -----------------------------------------------------------------------------


def test_the_body_of_a_step_logs_each_time_that_it_runs(make_rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    """1-7: with any logger; a replay runs no body, so it writes no line of one."""
    log = logging.getLogger("shop.greeting")

    def code(ctx: WorkflowContext, rig: Rig) -> str:
        def greet(name: str) -> str:
            log.info("greeting %s, try %d", name, rig.note("greet"))
            if rig.effects["greet"] == 1:
                raise ValueError("hoarse")
            return f"Hello, {name}!"

        greeting = ctx.step(greet, "Ada", retry=Retry(delay=MINUTE))
        ctx.sleep(HOUR)
        return greeting

    with caplog.at_level(logging.INFO, logger="shop.greeting"):
        assert played(make_rig, code).result() == "Hello, Ada!"
    assert [record.getMessage() for record in caplog.records if record.name == "shop.greeting"] == [
        "greeting Ada, try 1",
        "greeting Ada, try 2",
    ]


def test_at_most_once_in_each_try(make_rig: MakeRig) -> None:
    """1-18: ``once`` never calls again by itself; whoever wants another try says so, and it has a name of its own."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def charge() -> str:
            if rig.note("charge") == 1:
                raise Died
            return "charged"

        for attempt in range(3):
            try:
                return attempt, ctx.step(charge, once=True)
            except StepInterruptedError:
                ctx.sleep(MINUTE)
        return None

    rig = played(make_rig, code, retry=Retry(delay=MINUTE))
    assert rig.result() == (1, "charged")
    assert rig.effects == {"charge": 2}
    assert [line for line in rig.told() if "charge" in line and "began" not in line] == [
        "step charge: failed",
        "step charge#2: done",
    ]


def test_a_group_may_make_much_of_little(make_rig: MakeRig) -> None:
    """3-11: what a group returns is not recorded but made again, from its steps."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def grows(ctx: WorkflowContext) -> str:
            rig.note("made")
            return str(ctx.step(lambda: rig.note("step") and "krab", name="small")) * 250_000

        large = ctx.group(grows)
        ctx.sleep(HOUR)
        return len(large), large[-4:]

    rig = played(make_rig, code)
    assert rig.result() == (1_000_000, "krab")
    assert rig.effects == {"made": 2, "step": 1}


# --- encodings of one's own -----------------------------------------------------------------------


def test_a_step_may_encode_and_the_code_decode(make_rig: MakeRig) -> None:
    """1-6, 3-14, 6-11, 8-15, 9-14, 9-19, 9-20: what is recorded, and replayed, is what one's own function made."""

    def wrapped(value: str) -> dict[str, str]:
        return {"wrapped": value.upper()}

    def state_of(*, state: str) -> Any:
        grown = bytes.fromhex(state).decode() + "x"
        return grown if len(grown) == 2 else NotYet(state=grown.encode().hex())

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def part(ctx: WorkflowContext) -> Any:
            return ctx.step(wrapped, "in a group")

        one = ctx.step(wrapped, "hello")
        group = ctx.group(part)
        state = ctx.wait_for(state_of, every=MINUTE, initial="")
        both = ctx.parallel(("a", partial(wrapped, "a")), ("b", partial(wrapped, "b")))
        each = ctx.map(wrapped, ["x", "y"], name="each")
        whole = ctx.step(lambda: "OPSERDE:" + ",".join(one["wrapped"] for one in each), name="whole")
        ctx.sleep(HOUR)
        return [one, group, state, list(both), list(each), whole.removeprefix("OPSERDE:").split(",")]

    rig = played(make_rig, code)
    one, group, state, both, each, whole = rig.result()
    assert (one, group) == ({"wrapped": "HELLO"}, {"wrapped": "IN A GROUP"})
    assert state == "xx"
    assert [value["wrapped"] for value in (*both, *each)] == ["A", "B", "X", "Y"]
    assert whole == ["X", "Y"]


def test_what_the_outside_sends_is_decoded_by_the_code(make_rig: MakeRig) -> None:
    """4-15, 4-16: a moment and a number, sent as texts; sent from Python, they come as what they are."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        callbacks = {name: ctx.callback(name) for name in ("order", "count", "typed")}
        rig.notes["tokens"] = {name: callback.token for name, callback in callbacks.items()}
        order = callbacks["order"].result()
        when = datetime.fromisoformat(order["at"])
        count = int(callbacks["count"].result())
        typed = callbacks["typed"].result()
        ctx.sleep(HOUR)
        return when, count * 2, typed

    def outside(rig: Rig) -> bool:
        sent = {"order": {"at": "2027-01-15T12:00:00+00:00"}, "count": "21", "typed": datetime(2027, 1, 15, tzinfo=UTC)}
        if "tokens" not in rig.notes or rig.notes.get("sent"):
            return False
        rig.notes["sent"] = True
        return all(rig.outside.app.callbacks.complete(rig.notes["tokens"][name], sent[name]) for name in sent)

    rig = played(make_rig, code, outside)
    assert rig.result() == (datetime(2027, 1, 15, 12, tzinfo=UTC), 42, datetime(2027, 1, 15, tzinfo=UTC))


def test_a_condition_may_be_met_by_nothing(make_rig: MakeRig) -> None:
    """6-10: what is true ends the wait, so a value that may be nothing is returned inside of something."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        (found,) = ctx.wait_for(lambda: (None,), every=MINUTE, name="look")
        return found, rig.note("code")

    rig = played(make_rig, code)
    assert rig.result() == (None, 1)
    assert rig.told() == ["poll look: began", "poll look: done"]


# --- branches -------------------------------------------------------------------------------------


def test_branches_add_no_records_of_their_own(make_rig: MakeRig) -> None:
    """8-12, 9-12: flat nesting is the only one there is; each step stands directly below its map or parallel."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def branch(ctx: WorkflowContext, text: str) -> str:
            return str(ctx.step(lambda: text, name="leaf"))

        named = [(text, partial(lambda ctx, text: branch(ctx, text), text=text)) for text in ("fa", "fb")]
        both = ctx.parallel(*named, max_concurrency=1)
        each = ctx.map(branch, ["fa", "fb"], max_concurrency=1)
        return list(both), list(each)

    rig = played(make_rig, code)
    assert rig.result() == (["fa", "fb"], ["fa", "fb"])
    assert rig.told() == [
        "batch parallel: began",
        "step parallel[fa]/leaf: done",
        "step parallel[fb]/leaf: done",
        "batch parallel: done",
        "batch branch: began",
        "step branch[0]/leaf: done",
        "step branch[1]/leaf: done",
    ]


def test_items_may_come_with_their_places_or_names(make_rig: MakeRig) -> None:
    """9-3, 9-13: ``enumerate`` for the place; named branches are those of ``parallel``."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        placed = ctx.map(lambda pair: pair[0] + pair[1], enumerate([10, 20, 30]), name="place", max_concurrency=1)
        named = ctx.parallel(*((f"item-{n}", partial(lambda n: n * 10, n)) for n in (1, 2)), max_concurrency=1)
        return list(placed), list(named)

    rig = played(make_rig, code)
    assert rig.result() == ([10, 21, 32], [10, 20])
    assert "step parallel[item-2]/item-2: done" in rig.told()


# --- a callback that is handed out ----------------------------------------------------------------


def handed_out(
    ctx: WorkflowContext, rig: Rig, name: str, *, submit: Callable[[str], Any] | None = None, **options: Any
) -> Any:
    """What AWS calls "wait for callback": make it, hand its token out in a step, wait for the answer."""

    def submitter(token: str) -> None:
        rig.notes.setdefault("tokens", {})[name] = token

    callback = ctx.callback(name, **options)
    ctx.step(submit or submitter, callback.token, name=f"submit {name}", retry=Retry(max_attempts=2, delay=MINUTE))
    return callback.result()


def answering(answers: dict[str, Any]) -> Callable[[Rig], bool]:
    """The outside: it completes each callback once with its value, fails one whose answer is an error."""

    def outside(rig: Rig) -> bool:
        done = rig.notes.setdefault("answered", set())
        for name, token in rig.notes.get("tokens", {}).items():
            if name in answers and name not in done:
                done.add(name)
                answer, callbacks = answers[name], rig.outside.app.callbacks
                failed = isinstance(answer, Exception)
                return callbacks.fail(token, str(answer)) if failed else callbacks.complete(token, answer)
        return False

    return outside


def one(ctx: WorkflowContext, rig: Rig) -> Any:
    return handed_out(ctx, rig, "approval")


def in_a_group(ctx: WorkflowContext, rig: Rig) -> Any:
    def wrapper(ctx: WorkflowContext) -> Any:
        return handed_out(ctx, rig, "approval")

    return ctx.group(wrapper)


def after_others(ctx: WorkflowContext, rig: Rig) -> Any:
    ctx.sleep(timedelta(seconds=1))
    ctx.step(lambda: "fixed data", name="fixed")
    return handed_out(ctx, rig, "approval")


def one_after_the_other(ctx: WorkflowContext, rig: Rig) -> Any:
    return [handed_out(ctx, rig, name) for name in ("first", "second")]


def recovered(ctx: WorkflowContext, rig: Rig) -> Any:
    try:
        return handed_out(ctx, rig, "approval", timeout=MINUTE)
    except (CallbackFailedError, WaitTimeoutError) as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("code", "answers", "expected"),
    [
        pytest.param(one, {"approval": "yes"}, "yes", id="7-1, 7-2, 7-3"),
        pytest.param(in_a_group, {"approval": "yes"}, "yes", id="7-8"),
        pytest.param(one_after_the_other, {"first": 1, "second": 2}, [1, 2], id="7-9"),
        pytest.param(after_others, {"approval": "yes"}, "yes", id="7-10"),
        pytest.param(one, {"approval": {"status": "approved"}}, {"status": "approved"}, id="7-11"),
        pytest.param(one, {"approval": None}, None, id="7-15"),
        pytest.param(recovered, {"approval": ValueError("rejected")}, "CallbackFailedError", id="7-6"),
        pytest.param(recovered, {}, "WaitTimeoutError", id="7-14"),
    ],
)
def test_a_callback_is_handed_out_in_a_step(
    make_rig: MakeRig, code: Code, answers: dict[str, Any], expected: Any
) -> None:
    rig = played(make_rig, code, answering(answers))
    assert rig.result() == expected
    assert "tokens" in rig.notes


@pytest.mark.parametrize(
    ("options", "answers", "error"),
    [
        pytest.param({}, {"approval": ValueError("not approved")}, "not approved", id="7-4"),
        pytest.param({"timeout": timedelta(seconds=3)}, {}, "WaitTimeoutError", id="7-5"),
        pytest.param({"heartbeat": timedelta(seconds=5)}, {}, "WaitTimeoutError", id="7-12"),
    ],
)
def test_what_becomes_of_it_kills_the_run_if_nobody_catches_it(
    make_rig: MakeRig, options: dict[str, Any], answers: dict[str, Any], error: str
) -> None:
    rig = played(make_rig, lambda ctx, rig: handed_out(ctx, rig, "approval", **options), answering(answers))
    assert rig.run().state == DEAD
    assert error in rig.run().error


def test_a_step_that_cannot_hand_it_out_fails_first(make_rig: MakeRig) -> None:
    """7-7."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def submit(token: str) -> None:
            rig.note("submit")
            raise ConnectionError("nobody there")

        return handed_out(ctx, rig, "approval", submit=submit)

    rig = played(make_rig, code)
    assert rig.effects == {"submit": 2}
    assert rig.run().state == DEAD
    assert "nobody there" in rig.run().error


def test_a_sign_of_life_puts_the_end_of_patience_off(make_rig: MakeRig) -> None:
    """7-13."""

    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, retry=NONE)
        def flow(ctx: WorkflowContext) -> Any:
            return handed_out(ctx, rig, "approval", heartbeat=timedelta(seconds=10))

    rig = make_rig(define)
    rig.start("flow")
    rig.process().work()
    for _ in range(3):
        rig.finish(until=timedelta(seconds=8))
        assert rig.outside.app.callbacks.heartbeat(rig.notes["tokens"]["approval"])
    rig.finish(until=timedelta(seconds=8))
    assert rig.outside.app.callbacks.complete(rig.notes["tokens"]["approval"], "at last")
    rig.finish()
    assert rig.result() == "at last"
