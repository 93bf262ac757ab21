"""What is kept of a failed attempt: everything useful, nothing unbounded, and never an exception of its own."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.model.failure import (
    MAX_HISTORY,
    MAX_RECORD_BYTES,
    Failure,
    capture,
    count,
    history,
    worker_lost,
)

from .hostile import KeywordOnlyError, caught, circle, every_hostile_error, runaway, syntax_error, wide_group

NOON_MS = 1_800_014_400_000
ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=200)


def of(error: BaseException, *, attempt: int = 1) -> Failure:
    return capture(error, attempt=attempt, build="v7", failed_at_ms=NOON_MS, worker="pod-0/1")


def json_bytes(failure: Failure) -> int:
    return len(json.dumps(failure.to_record()))


# --- what is kept ---------------------------------------------------------------------------------


def test_type_message_and_place_are_kept() -> None:
    """PUB-29: an exception that cannot be built again is told by its name."""

    def charge() -> None:
        raise KeywordOnlyError(status=503, detail="x")

    failure = of(caught(charge))
    assert failure.type == "tests.unit.hostile.KeywordOnlyError"
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert "test_type_message_and_place_are_kept.<locals>.charge\n    raise KeywordOnlyError" in failure.traceback


def test_attempt_build_worker_and_time_are_kept() -> None:
    failure = of(ValueError("x"), attempt=3)
    assert (failure.attempt, failure.build, failure.worker) == (3, "v7", "pod-0/1")
    assert failure.failed_at == datetime(2027, 1, 15, 12, tzinfo=UTC)


def test_a_failure_prints_like_an_exception() -> None:
    assert str(of(ValueError("card expired"))) == "ValueError: card expired"
    assert str(of(ValueError())) == "ValueError"


def test_control_characters_and_emoji_stay_in_the_message() -> None:
    """PUB-30."""
    text = "a\u0000b\u001f\u2028 👩‍👩‍👧 é"
    assert Failure.from_record(json.loads(json.dumps(of(ValueError(text)).to_record()))).message == text


def test_causes_and_contexts_are_kept_with_their_stacks() -> None:
    def look_up() -> None:
        raise KeyError("id")

    def job() -> None:
        try:
            try:
                look_up()
            except KeyError as error:
                raise LookupError("no order") from error
        except LookupError:
            raise RuntimeError("giving up")  # noqa: B904 - the context is the point

    failure = of(caught(job))
    assert [(c.relation, c.depth, c.type) for c in failure.causes] == [
        ("context", 1, "LookupError"),
        ("cause", 2, "KeyError"),
    ]
    assert "\n\nWhile handling:\nTraceback" in failure.traceback
    assert "\n\nCaused by:\nTraceback" in failure.traceback
    assert "in test_causes_and_contexts_are_kept_with_their_stacks.<locals>.look_up" in failure.traceback


def test_a_suppressed_context_is_no_cause() -> None:
    def job() -> None:
        try:
            raise KeyError
        except KeyError:
            raise ValueError from None

    assert of(caught(job)).causes == ()


def test_the_members_of_a_group_are_kept_with_their_stacks() -> None:
    async def fails() -> None:
        raise ConnectionError("refused")

    async def job() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    failure = of(caught(lambda: asyncio.run(job())))
    assert [(c.relation, c.type, c.message) for c in failure.causes] == [("member", "ConnectionError", "refused")]
    assert "\n\nMember 1 of 1:\n" in failure.traceback
    assert "<locals>.fails" in failure.traceback


def test_members_leave_room_for_their_causes() -> None:
    group = wide_group()
    assert isinstance(group, ExceptionGroup)
    group.exceptions[0].__cause__ = OSError("root")
    failure = of(group)
    assert ("cause", 2, "OSError") in [(c.relation, c.depth, c.type) for c in failure.causes]
    assert failure.causes_left_out == 9_995


def test_notes_are_kept() -> None:
    error = ValueError("x")
    error.add_note("order 17")
    assert of(error).notes == ("order 17",)


def test_a_circle_of_causes_is_gone_round_once() -> None:
    assert [c.type for c in of(circle()).causes] == ["KeyError"]


def test_a_syntax_error_says_where() -> None:
    assert "broken.py, line 2" in of(syntax_error()).message


def test_the_ends_of_a_thousand_frames_are_kept() -> None:
    failure = of(runaway())
    assert "<locals>.down" in failure.traceback
    assert "frames left out]" in failure.traceback
    assert failure.traceback.endswith("RecursionError: maximum recursion depth exceeded")


def test_frames_of_the_worker_above_the_body_are_left_out() -> None:
    def body() -> None:
        raise ValueError

    worker: dict[str, Any] = {"__name__": "dynadurable.worker.run", "body": body}
    exec("def run():\n    try:\n        attempt()\n    except ValueError as e:\n        return e", worker)
    exec("def attempt():\n    body()", worker)
    traceback = of(worker["run"]()).traceback
    assert "in attempt" not in traceback
    assert "in test_frames_of_the_worker_above_the_body_are_left_out.<locals>.body" in traceback


def test_an_error_of_the_library_itself_keeps_its_frames() -> None:
    worker: dict[str, Any] = {"__name__": "dynadurable.worker.run"}
    exec("def run():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        return e", worker)
    assert "in run" in of(worker["run"]()).traceback


# --- it never fails, and is bounded ---------------------------------------------------------------


@pytest.mark.parametrize(("name", "make"), [pytest.param(*one, id=one[0]) for one in every_hostile_error()])
def test_every_error_is_captured_within_its_bytes(name: str, make: Callable[[], BaseException]) -> None:
    failure = of(make())
    assert json_bytes(failure) <= MAX_RECORD_BYTES
    assert failure.type
    assert Failure.from_record(json.loads(json.dumps(failure.to_record()))) == failure


@pytest.mark.parametrize(("name", "make"), [pytest.param(*one, id=one[0]) for one in every_hostile_error()])
def test_every_raised_error_is_captured_within_its_bytes(name: str, make: Callable[[], BaseException]) -> None:
    def body() -> None:
        raise make()

    failure = of(caught(body))
    assert json_bytes(failure) <= MAX_RECORD_BYTES
    assert "<locals>.body" in failure.traceback


@given(ANY_TEXT, st.integers(1, 100), st.lists(ANY_TEXT, max_size=8), ANY_TEXT)
def test_any_text_is_captured_within_its_bytes(text: str, times: int, notes: list[str], name: str) -> None:
    kind = type("K", (Exception,), {"__module__": name * times})
    error: Exception = kind(text * times)
    for note in notes:
        error.add_note(note * times)
    for member in notes:
        error = ExceptionGroup(member, [error, kind(member * times)])
    failure = capture(error, attempt=1, build=name * times, failed_at_ms=NOON_MS, worker=text * times)
    record = json.dumps(failure.to_record())
    assert len(record) <= MAX_RECORD_BYTES
    assert Failure.from_record(json.loads(record)) == failure


def test_a_message_that_cannot_be_printed_says_so() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise LookupError

    assert of(SilentError()).message == "<its message cannot be printed>: __str__ raised LookupError"


def test_a_captured_failure_keeps_nothing_alive() -> None:
    class Large:
        pass

    def job() -> weakref.ref[Large]:
        large = Large()
        failures.append(of(caught(lambda: int(f"{large!r}"))))
        return weakref.ref(large)

    failures: list[Failure] = []
    seen = job()
    gc.collect()
    assert failures
    assert seen() is None


# --- a lost worker --------------------------------------------------------------------------------


def test_a_lost_worker_is_a_failure_that_says_so() -> None:
    """PUB-09."""
    failure = worker_lost(attempt=3, build=None, failed_at_ms=NOON_MS, worker="pod-0/1")
    assert failure.message == "worker lost: the lease expired before the attempt ended"
    assert failure.attempt == 3
    assert failure.worker == "pod-0/1"


def test_all_lost_workers_are_one_cause() -> None:
    one, two = (worker_lost(attempt=n, build=f"v{n}", failed_at_ms=n, worker=f"pod-{n}") for n in (1, 2))
    assert one.fingerprint == two.fingerprint != ""


# --- records --------------------------------------------------------------------------------------


def test_what_is_empty_takes_no_place_in_a_record() -> None:
    assert Failure(type="E", message="m").to_record() == {"type": "E", "message": "m"}


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"type": 7, "message": None, "causes": "x", "notes": {"a": 1}, "attempt": "3", "failed_at_ms": float("nan")},
        {"type": "E", "causes": [1, [], ["cause", "1", "E", "m"], None], "notes": [1, None], "attempt": float("inf")},
        {"type": "E", "added_later": [1, 2, 3]},
    ],
)
def test_a_record_of_another_version_is_read(record: dict[str, Any]) -> None:
    failure = Failure.from_record(record)
    assert failure.type in {"E", "unknown"}
    assert failure.causes == ()
    assert failure.attempt == 0


# --- history --------------------------------------------------------------------------------------


def after(attempts: int, error: Callable[[int], BaseException] = ValueError) -> tuple[Failure, ...]:
    kept: tuple[Failure, ...] = ()
    for attempt in range(1, attempts + 1):
        kept = history(kept, of(error(attempt), attempt=attempt))
    return kept


def test_a_short_history_is_complete() -> None:
    """PUB-54: all three causes."""
    assert [failure.message for failure in after(3)] == ["1", "2", "3"]


def test_a_long_history_keeps_both_ends_and_counts_the_rest() -> None:
    kept = after(100)
    assert len(kept) == MAX_HISTORY
    assert [failure.attempt for failure in kept] == [1, 2, 95, 96, 97, 98, 99, 100]
    assert [failure.dropped_before for failure in kept] == [0, 0, 92, 0, 0, 0, 0, 0]
    assert count(kept) == 100


def test_history_does_not_grow() -> None:
    """PUB-55: two thousand take no more than twenty."""

    def size(attempts: int) -> int:
        return len(json.dumps([failure.to_record() for failure in after(attempts)]))

    assert size(2_000) - size(20) < 200


def test_history_is_bounded_at_its_worst() -> None:
    kept: tuple[Failure, ...] = ()
    for attempt in range(30):
        worst = replace(
            of(ValueError("\x00" * 10_000), attempt=attempt), fingerprint=str(attempt), traceback="\x00" * 600
        )
        kept = history(kept, worst)
    assert len(json.dumps([failure.to_record() for failure in kept])) <= 22_000


def test_the_latest_failure_is_kept_in_full() -> None:
    *earlier, last = after(5, lambda _: caught(lambda: int("x")))
    assert "int" in last.traceback
    assert all(failure.traceback == "" for failure in earlier)


def test_the_first_failure_is_kept_in_full_while_its_cause_is_another_one() -> None:
    kept = after(4, lambda attempt: caught(lambda: int("x")) if attempt == 1 else caught(lambda: {"a": 1}["b"]))
    assert "int(" in kept[0].traceback
    assert [bool(failure.traceback) for failure in kept] == [True, False, False, True]
