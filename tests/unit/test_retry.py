"""Retry policies: bad ones stop the program at its start, and no attempt number overflows a delay."""

from __future__ import annotations

import asyncio
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.errors import (
    ConfigurationError,
    Fail,
    Interrupted,
    NonDeterminismError,
    PayloadTooLargeError,
    PayloadUnreadableError,
    RequestRefusedError,
)
from dynadurable.model.instant import MAX_DELAY
from dynadurable.model.retry import DEFAULT_MAX_DELAY, Retry

SECOND = timedelta(seconds=1)
RANDOM = st.floats(min_value=0, max_value=1, exclude_max=True)
POLICIES = st.builds(
    Retry,
    max_attempts=st.integers(1, 10**9),
    delay=st.timedeltas(min_value=timedelta()),
    backoff=st.floats(min_value=1, allow_nan=False, allow_infinity=False),
    jitter=st.floats(min_value=0, max_value=1),
)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, -1, True, False, 1.5, 3.0, "3", None, float("nan"), float("inf")])
def test_max_attempts_must_be_a_whole_number_from_one(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_attempts"):
        Retry(max_attempts=bad)


def test_a_number_too_long_to_print_is_refused_all_the_same() -> None:
    with pytest.raises(ConfigurationError, match="max_attempts"):
        Retry(max_attempts=-(10**5000))


@pytest.mark.parametrize("bad", [-SECOND, timedelta.min, 1, 1e18, float("nan"), float("inf"), "1s", None])
def test_a_bad_delay_is_refused_at_definition(bad: Any) -> None:
    """PUB-53."""
    with pytest.raises(ConfigurationError, match="the retry delay"):
        Retry(delay=bad)
    with pytest.raises(ConfigurationError, match="the retry delay"):
        Retry.fixed(bad)


@pytest.mark.parametrize("bad", [-SECOND, 60, float("nan"), "1h"])
def test_a_bad_max_delay_is_refused_at_definition(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_delay"):
        Retry(max_delay=bad)


def test_a_max_delay_below_the_first_delay_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="shorter than the first delay"):
        Retry(delay=2 * SECOND, max_delay=SECOND)


@pytest.mark.parametrize(
    "bad", [-1.0, 0, 0.5, float("nan"), float("inf"), -float("inf"), True, "2", None, 10**400, timedelta(1)]
)
def test_a_bad_backoff_is_refused_at_definition(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="backoff"):
        Retry(backoff=bad)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), float("inf"), True, "0.1", None, 10**400])
def test_a_bad_jitter_is_refused_at_definition(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="jitter"):
        Retry(jitter=bad)


@pytest.mark.parametrize("field", ["retry_on", "give_up_on"])
@pytest.mark.parametrize("bad", ["ValueError", ("ValueError",), (KeyboardInterrupt,), (ValueError(),), None, 3, (int,)])
def test_what_is_no_exception_class_is_refused(field: str, bad: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        Retry(**{field: bad})


def test_one_class_alone_is_taken_as_a_tuple_of_it() -> None:
    assert Retry(retry_on=OSError, give_up_on=[KeyError]) == Retry(  # type: ignore[arg-type]
        retry_on=(OSError,), give_up_on=(KeyError,)
    )


# --- how long -------------------------------------------------------------------------------------


def test_the_delay_doubles_and_loses_its_jitter() -> None:
    policy = Retry(delay=2 * SECOND, backoff=2.0, jitter=0.1)
    assert [policy.delay_before(n, random=0.0) / SECOND for n in (1, 2, 3, 4)] == [2, 4, 8, 16]
    assert [policy.delay_before(n, random=0.5) / SECOND for n in (1, 2, 3, 4)] == [1.9, 3.8, 7.6, 15.2]


@pytest.mark.parametrize("attempt", [1_100, 10**6, 10**18, 10**400])
@pytest.mark.parametrize("backoff", [2.0, 1e308, 1.0000001, 10])
def test_no_attempt_number_overflows(attempt: int, backoff: float) -> None:
    """PUB-53: ``2.0 ** 1100`` is an OverflowError."""
    policy = Retry(delay=2 * SECOND, backoff=backoff, max_delay=timedelta(hours=1), jitter=0)
    assert 2 * SECOND <= policy.delay_before(attempt, random=0.0) <= timedelta(hours=1)


def test_a_huge_delay_is_clamped_to_the_documented_maximum() -> None:
    """PUB-53: ``timedelta(seconds=1e18)`` does not even exist; the longest one that does is clamped."""
    assert Retry.fixed(timedelta.max).delay_before(1, random=0.0) == MAX_DELAY
    assert Retry(delay=timedelta.max, max_delay=timedelta.max).delay_before(1_100, random=0.0) == MAX_DELAY


def test_no_wait_is_longer_than_a_day_by_default() -> None:
    assert Retry().delay_before(1_100, random=0.0) == DEFAULT_MAX_DELAY == timedelta(days=1)


def test_a_first_delay_beyond_the_default_maximum_is_kept() -> None:
    assert Retry(delay=timedelta(days=3), jitter=0).delay_before(2, random=0.0) == timedelta(days=3)


@pytest.mark.parametrize("attempt", [0, -1, True])
def test_an_attempt_below_one_is_refused(attempt: int) -> None:
    with pytest.raises(ValueError, match="attempt"):
        Retry().delay_before(attempt, random=0.0)


@pytest.mark.parametrize("random", [-0.1, 1.0, float("nan")])
def test_a_random_number_outside_its_range_is_refused(random: float) -> None:
    with pytest.raises(ValueError, match="random"):
        Retry().delay_before(1, random=random)


@given(POLICIES, st.integers(1, 10**30), RANDOM)
def test_every_delay_lies_between_nothing_and_its_maximum(policy: Retry, attempt: int, random: float) -> None:
    assert policy.max_delay is not None
    assert timedelta() <= policy.delay_before(attempt, random=random) <= policy.max_delay <= MAX_DELAY


@given(POLICIES, st.integers(1, 2_000))
def test_without_chance_no_wait_is_shorter_than_the_one_before(policy: Retry, attempt: int) -> None:
    assert policy.delay_before(attempt, random=0.0) <= policy.delay_before(attempt + 1, random=0.0)


# --- whether --------------------------------------------------------------------------------------


def test_by_default_every_exception_is_retried() -> None:
    assert Retry().retries(ValueError())


def test_only_what_is_named_is_retried() -> None:
    policy = Retry(retry_on=(OSError,), give_up_on=(FileNotFoundError,))
    assert [policy.retries(e) for e in (TimeoutError(), FileNotFoundError(), ValueError())] == [True, False, False]


@pytest.mark.parametrize(
    "error",
    [
        Fail("stolen"),
        PayloadTooLargeError("the result", size_bytes=450_000, limit_bytes=400_000),
        NonDeterminismError(expected="step a", found="step b", where=""),
        RequestRefusedError("UpdateItem", "ValidationException"),
    ],
)
def test_what_the_same_input_meets_again_is_never_retried(error: Exception) -> None:
    assert not Retry(retry_on=(Exception,)).retries(error)


def test_an_undecodable_payload_uses_its_attempts() -> None:
    """PUB-11."""
    assert Retry().retries(PayloadUnreadableError("unknown version", raw=b"{}"))


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), Interrupted("stopping")]
)
def test_what_is_no_exception_is_not_for_the_policy(error: BaseException) -> None:
    assert not Retry().retries(error)


def test_a_group_is_judged_by_all_its_members() -> None:
    policy = Retry(retry_on=(OSError,))
    assert policy.retries(ExceptionGroup("two", [OSError(), ExceptionGroup("inner", [TimeoutError()])]))
    assert not policy.retries(ExceptionGroup("two", [OSError(), ValueError()]))
    assert not Retry().retries(ExceptionGroup("task group", [OSError(), Fail("no")]))
    assert not Retry().retries(BaseExceptionGroup("cancelled", [asyncio.CancelledError()]))


def test_a_group_can_be_named_itself() -> None:
    group = ExceptionGroup("g", [ValueError()])
    assert not Retry(give_up_on=(ExceptionGroup,)).retries(group)
    assert Retry(retry_on=(ExceptionGroup,)).retries(group)


def test_there_is_no_wait_after_the_last_attempt() -> None:
    """PUB-54: 3 bodies, 2 sleeps, the final error after 20 s."""
    policy = Retry.fixed(timedelta(seconds=10), max_attempts=3)
    waits = [policy.delay_after(ValueError(), attempt, random=0.9) for attempt in (1, 2, 3)]
    assert waits == [timedelta(seconds=10), timedelta(seconds=10), None]


def test_there_is_no_wait_after_a_final_error() -> None:
    assert Retry().delay_after(Fail("stolen"), 1, random=0.0) is None


def test_none_gives_up_at_once() -> None:
    assert Retry.none().delay_after(ValueError(), 1, random=0.0) is None


def test_a_policy_is_a_value() -> None:
    policy = Retry(max_attempts=3, give_up_on=(KeyError,))
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert hash(policy) == hash(Retry(max_attempts=3, give_up_on=(KeyError,)))
