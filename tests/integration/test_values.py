"""Values on their way through a run: what was enqueued is what every start of the body gets, retries included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dynadurable import App, JobContext, Retry
from dynadurable.errors import InputRefusedError
from dynadurable.testing.clock import ManualClock
from tests.integration.test_jobs import drain
from tests.unit.codec_samples import VALUES, same

SOON = Retry(max_attempts=2, delay=timedelta(seconds=10), jitter=0.0)


def given(app: App, clock: ManualClock, value: Any) -> list[Any]:
    """What the body gets of that value at its first start, and after a failure."""
    got: list[Any] = []

    @app.job(retry=SOON)
    def work(ctx: JobContext, value: Any) -> None:
        got.append(value)
        if ctx.attempt == 1:
            raise ValueError("once more")

    run = app.enqueue(work, value)
    drain(app)
    clock.advance(timedelta(seconds=10))
    drain(app)
    assert run.info().state == "succeeded"
    assert same(run.info().arguments(), {"value": value})
    return got


def check(app: App, clock: ManualClock, name: str) -> None:
    value = VALUES[name]
    first, second = given(app, clock, value)
    assert same(first, value)
    assert same(second, value)


def test_floats_are_given_as_they_were(app: App, clock: ManualClock) -> None:
    """PUB-22."""
    check(app, clock, "floats")


@pytest.mark.parametrize("name", ["long integers", "huge integers"])
def test_integers_of_any_length_are_given_as_they_were(app: App, clock: ManualClock, name: str) -> None:
    """PUB-23."""
    check(app, clock, name)


def test_numbers_that_json_lacks_are_given_as_they_were(app: App, clock: ManualClock) -> None:
    """PUB-24."""
    check(app, clock, "special numbers")


@pytest.mark.parametrize("name", ["int keys", "keys that JSON would merge"])
def test_keys_that_are_no_texts_stay_what_they_are(app: App, clock: ManualClock, name: str) -> None:
    """PUB-25."""
    check(app, clock, name)


def test_empty_and_binary_values_are_given_as_they_were(app: App, clock: ManualClock) -> None:
    """PUB-27."""
    check(app, clock, "empty and binary")


def test_moments_are_given_with_their_zones(app: App, clock: ManualClock) -> None:
    """PUB-28, its second half; the first is ``test_an_absolute_due_time_is_taken_as_the_instant_it_is``."""
    value = [datetime(2027, 1, 15, 12, tzinfo=UTC), *VALUES["moments"]]
    for got in given(app, clock, value):
        assert same(got, value)
        assert (got[0].timestamp(), got[0].tzinfo) == (1800014400.0, UTC)


@pytest.mark.parametrize("name", ["texts", "lone surrogates"])
def test_texts_are_given_to_the_last_character(app: App, clock: ManualClock, name: str) -> None:
    """PUB-30."""
    check(app, clock, name)


def test_what_could_not_come_back_is_refused_by_its_path(app: App, items_in: Any) -> None:
    @app.job
    def work(value: dict[str, Any]) -> None: ...

    with pytest.raises(InputRefusedError, match=r"work\.value\.a\[1\]"):
        app.enqueue(work, {"a": [1, object()]})
    assert items_in(app) == []
