"""The Lambda handler does what is due and ends in time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from dynadurable import aws_lambda
from dynadurable.errors import ConfigurationError
from dynadurable.locate import locate_app
from dynadurable.testing.moto import serialised_moto

MODULE = """
from dynadurable import App

app = App("work", region="us-east-1")
not_an_app = 7
done = []


@app.job
def note(what: str) -> None:
    done.append(what)
"""


class Context:
    """Lambda's, as far as it is used."""

    def __init__(self, remaining: timedelta) -> None:
        self._remaining = remaining

    def get_remaining_time_in_millis(self) -> int:
        return int(self._remaining.total_seconds() * 1000)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the user's, on a table that exists, named by the environment."""
    (tmp_path / "lambda_jobs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("DYNADURABLE_APP", "lambda_jobs:app")
    aws_lambda._app.cache_clear()
    with mock_aws(), serialised_moto():
        locate_app("lambda_jobs:app").create_table()
        yield sys.modules["lambda_jobs"]
    aws_lambda._app.cache_clear()
    del sys.modules["lambda_jobs"]


def test_it_runs_what_is_due_and_says_that_nothing_is_left(jobs: Any) -> None:
    jobs.app.enqueue(jobs.note, what="a")
    jobs.app.enqueue(jobs.note, what="b")
    assert aws_lambda.handler({}, Context(timedelta(seconds=60))) == {"next_due": None}
    assert sorted(jobs.done) == ["a", "b"]


def test_it_says_when_something_comes_due_next(jobs: Any) -> None:
    jobs.app.enqueue(jobs.note.using(delay=timedelta(hours=1)), what="later")
    answer = aws_lambda.handler({}, Context(timedelta(seconds=60)))
    assert jobs.done == []
    assert answer["next_due"] is not None
    assert datetime.fromisoformat(answer["next_due"]).tzinfo is not None


def test_it_works_again_in_the_same_process(jobs: Any) -> None:
    """Lambda keeps a process for many invocations."""
    for what in ("first", "second"):
        jobs.app.enqueue(jobs.note, what=what)
        aws_lambda.handler({}, Context(timedelta(seconds=60)))
    assert jobs.done == ["first", "second"]


@pytest.mark.parametrize("seconds", [0, 1, 3, 10, 60, 900])
def test_working_and_stopping_fit_into_the_time_that_is_left(seconds: int) -> None:
    remaining = timedelta(seconds=seconds)
    work, grace = aws_lambda.time_to_work(remaining)
    assert work >= timedelta(0)
    assert grace >= timedelta(0)
    assert work + grace + aws_lambda.RESERVE <= max(remaining, aws_lambda.RESERVE)


def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYNADURABLE_APP", raising=False)
    with pytest.raises(ConfigurationError, match="DYNADURABLE_APP"):
        aws_lambda.handler({}, Context(timedelta(seconds=60)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lambda_jobs", "module:attribute"),
        (":app", "module:attribute"),
        ("no_such_module:app", "no module 'no_such_module'"),
        ("lambda_jobs.inner:app", "no module"),
        ("lambda_jobs:other", "not a dynadurable App"),
        ("lambda_jobs:not_an_app", "not a dynadurable App"),
        ("__main__:app", "App|no module"),
    ],
)
def test_a_name_that_leads_to_no_app_is_explained(jobs: Any, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        locate_app(name)


def test_what_a_users_module_raises_is_not_mistaken_for_a_missing_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_jobs.py").write_text("import a_library_that_is_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_installed"):
        locate_app("broken_jobs:app")
