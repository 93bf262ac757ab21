"""``map``, ``parallel`` and ``group``: results in order, failures kept, completion as asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

import pytest

from dynadurable import App, ConfigurationError, Retry
from dynadurable.errors import BranchesFailedError, StepFailedError
from dynadurable.model.completion import Completion
from dynadurable.storage.items import DEAD
from dynadurable.workflow.context import WorkflowContext
from tests.workflow.conftest import MakeRig
from tests.workflow.rig import Define, Rig

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
NONE = Retry.none()


def flow_of(code: Callable[[WorkflowContext, Rig], Any]) -> Define:
    def define(app: App, rig: Rig) -> None:
        @app.workflow(keep_result=DAY, retry=NONE)
        def flow(ctx: WorkflowContext) -> Any:
            return code(ctx, rig)

    return define


def finished(make_rig: MakeRig, code: Callable[[WorkflowContext, Rig], Any]) -> Rig:
    rig = make_rig(flow_of(code))
    rig.start("flow")
    rig.finish()
    return rig


def test_results_come_in_the_order_of_the_items(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        first_waits = threading.Event()

        def pack(item: int) -> int:
            rig.note("pack")
            if item == 0:
                first_waits.wait(10)
            if item == 2:
                first_waits.set()
            return item * 10

        return list(ctx.map(pack, range(5), max_concurrency=3))

    rig = finished(make_rig, code)
    assert rig.result() == [0, 10, 20, 30, 40]
    assert rig.effects["pack"] == 5


def test_no_more_run_at_once_than_was_asked_for(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        lock, now, most = threading.Lock(), [0], [0]

        def body(_item: int) -> None:
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            threading.Event().wait(0.005)
            with lock:
                now[0] -= 1

        ctx.map(body, range(20), max_concurrency=3)
        return most[0]

    assert 1 < finished(make_rig, code).result() <= 3


def test_branches_have_operations_of_their_own(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def double(item: int) -> int:
            rig.note(f"double {item}")
            return item * 2

        def branch(ctx: WorkflowContext, item: int) -> int:
            once = ctx.step(double, item)
            ctx.sleep(item * MINUTE)
            return ctx.step(double, once)

        return list(ctx.map(branch, [1, 2, 3], max_concurrency=2))

    rig = finished(make_rig, code)
    assert rig.result() == [4, 8, 12]
    assert set(rig.effects.values()) == {1, 2}
    assert rig.effects["double 2"] == 2  # of the first and of the second branch
    assert "step branch[1]/double#2: done" in rig.told()


def test_parked_branches_keep_their_places(make_rig: MakeRig) -> None:
    began: list[tuple[int, str]] = []

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def branch(ctx: WorkflowContext, item: int) -> int:
            ctx.step(lambda: began.append((item, f"{rig.clock.now():%M}")), name="begin")
            ctx.sleep(10 * MINUTE)
            return item

        return list(ctx.map(branch, range(4), max_concurrency=2))

    rig = finished(make_rig, code)
    assert rig.result() == [0, 1, 2, 3]
    assert sorted(began) == [(0, "00"), (1, "00"), (2, "10"), (3, "10")]


def test_parallel_runs_different_functions(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def text() -> str:
            return "hello"

        def shelf(ctx: WorkflowContext) -> dict[str, int]:
            return {"k": ctx.step(lambda: 42, name="number")}

        results = ctx.parallel(text, ("named", lambda: 1), shelf, ("named", lambda: 2))
        return list(results), [outcome.name for outcome in results.outcomes]

    rig = finished(make_rig, code)
    assert rig.result() == (["hello", 1, {"k": 42}, 2], ["text[0]", "named[1]", "shelf[2]", "named[3]"])
    assert "step parallel[named#2]/named: done" in rig.told()


def test_nothing_to_do_is_done_at_once(make_rig: MakeRig) -> None:
    rig = finished(make_rig, lambda ctx, rig: (len(ctx.map(str, [])), ctx.parallel().reason))
    assert rig.result() == (0, "all completed")


def test_branches_may_branch(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def outer(ctx: WorkflowContext, n: int) -> list[str]:
            def inner(ctx: WorkflowContext, m: int) -> str:
                ctx.sleep(MINUTE)
                return ctx.step(lambda: f"{n}{m}", name="leaf")

            return list(ctx.map(inner, range(2), max_concurrency=1))

        return list(ctx.map(outer, range(3), max_concurrency=2))

    rig = finished(make_rig, code)
    assert rig.result() == [["00", "01"], ["10", "11"], ["20", "21"]]
    assert "step outer[2]/inner[1]/leaf: done" in rig.told()


def test_a_group_has_names_of_its_own(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def part(ctx: WorkflowContext, n: int) -> int:
            ctx.sleep(MINUTE)
            return ctx.step(lambda: n, name="leaf")

        return ctx.group(part, 1), ctx.step(lambda: 2, name="leaf"), ctx.group(part, 3)

    rig = finished(make_rig, code)
    assert rig.result() == (1, 2, 3)
    assert [line for line in rig.told() if "leaf" in line] == [
        "step part/leaf: done",
        "step leaf: done",
        "step part#2/leaf: done",
    ]


Ours = WorkflowContext


@pytest.mark.parametrize(
    "annotation", ["Ours", "WorkflowContext", "WorkflowContext | None", Annotated[Ours, "x"], Ours]
)
def test_code_of_its_own_is_known_however_its_context_is_spelled(make_rig: MakeRig, annotation: Any) -> None:
    """As for jobs: aliases, strings, unions and ``Annotated`` are seen through."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def branch(own: Any, n: int) -> int:
            return int(own.step(lambda: n, name="leaf"))

        branch.__annotations__["own"] = annotation
        return list(ctx.map(branch, range(2)))

    rig = finished(make_rig, code)
    assert rig.result() == [0, 1]
    assert "step branch[1]/leaf: done" in rig.told()


# --- completion -----------------------------------------------------------------------------------


def outcome_of(spec: str, *, completion: Completion) -> Callable[[WorkflowContext, Rig], Any]:
    """Branches one after the other: "s" succeeds, "f" fails."""

    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def body(index: int) -> int:
            rig.note(f"body {index}")
            if spec[index] == "f":
                raise ValueError(f"no {index}")
            return index

        try:
            results = ctx.map(body, range(len(spec)), max_concurrency=1, completion=completion, retry=NONE)
            raised = False
        except BranchesFailedError as error:
            results, raised = error.results, True
        ctx.sleep(HOUR)
        return results.letters(), results.reason, raised, [str(error) for error in results.errors], results.values

    return code


@pytest.mark.parametrize(
    ("spec", "completion", "letters", "reason", "raised"),
    [
        ("sss", Completion.all(), "sss", "all completed", False),
        ("sfs", Completion.all(), "sf-", "too many failed", True),
        ("ssss", Completion.first(2), "ss--", "enough succeeded", False),
        ("sfss", Completion.first(2), "sfs-", "enough succeeded", False),
        ("sfs", Completion.first(3), "sfs", "all completed", True),
        ("sfs", Completion.tolerate(1), "sfs", "all completed", False),
        ("ffs", Completion.tolerate(1), "ff-", "too many failed", True),
        ("fff", Completion.tolerate(3), "fff", "all completed", False),
        ("fsss", Completion.tolerate(percent=25), "fsss", "all completed", False),
        ("ffss", Completion.tolerate(percent=25), "ff--", "too many failed", True),
        ("fff", Completion.settled(), "fff", "all completed", False),
        ("ffss", Completion(min_successes=3, tolerated_failures=1), "ff--", "too many failed", True),
    ],
)
def test_completion(
    make_rig: MakeRig, spec: str, completion: Completion, letters: str, reason: str, raised: bool
) -> None:
    rig = finished(make_rig, outcome_of(spec, completion=completion))
    got = rig.result()
    assert got[:3] == (letters, reason, raised)
    assert got[3] == [f"step 'body' failed: ValueError: no {i}" for i, c in enumerate(letters) if c == "f"]
    assert got[4] == [i for i, c in enumerate(letters) if c == "s"]
    assert set(rig.effects.values()) == {1}
    assert len(rig.effects) == len(letters.replace("-", ""))


def test_what_failed_raises_where_its_value_is_asked_for(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def body(n: int) -> int:
            return 10 // n

        results = ctx.map(body, [1, 0, 5], completion=Completion.settled(), retry=NONE)
        try:
            results[1]
        except StepFailedError as error:
            return results[0], results[2], error.is_a(ZeroDivisionError), results.has_failures
        return None

    assert finished(make_rig, code).result() == (10, 2, True, True)


def test_a_group_of_branches_that_fails_kills_the_run_with_the_cause(make_rig: MakeRig) -> None:
    rig = finished(make_rig, lambda ctx, rig: ctx.map(lambda n: 1 // n, [0], name="divide", retry=NONE))
    assert rig.run().state == DEAD
    assert "division" in rig.run().error
    assert rig.failure().type.endswith("BranchesFailedError")


def test_a_branch_that_raises_by_itself_has_failed(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def branch(ctx: WorkflowContext, n: int) -> int:
            value = ctx.step(lambda: n, name="value")
            if value == 1:
                raise KeyError("mine")
            return value

        results = ctx.map(branch, range(3), completion=Completion.settled())
        ctx.sleep(HOUR)
        return results.letters(), repr(results.errors[0])

    assert finished(make_rig, code).result() == ("sfs", "KeyError('mine')")


def test_the_quickest_wins_and_the_others_are_left(make_rig: MakeRig) -> None:
    def code(ctx: WorkflowContext, rig: Rig) -> Any:
        def branch(ctx: WorkflowContext, n: int) -> int:
            ctx.sleep(n * MINUTE)
            return ctx.step(lambda: rig.note(f"body {n}") and n, name="body")

        results = ctx.map(branch, [30, 1, 20], completion=Completion.first(1))
        ctx.sleep(HOUR)
        return results.letters(), results.values

    rig = finished(make_rig, code)
    assert rig.result() == ("asa", [1])
    assert rig.effects == {"body 1": 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Completion.first(0),
        lambda: Completion.tolerate(-1),
        lambda: Completion.tolerate(percent=101),
        lambda: Completion(min_successes=True),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(make: Callable[[], Completion]) -> None:
    with pytest.raises(ConfigurationError):
        make()
