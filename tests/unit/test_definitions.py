"""What can be a job, and how its function's parameters are understood."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import pytest

import dynadurable
from dynadurable import App, AsyncJobContext, ConfigurationError, Job
from dynadurable import JobContext as Renamed

if TYPE_CHECKING:
    from dynadurable import JobContext as OnlyForCheckers

Alias = Renamed


@pytest.fixture
def app() -> App:
    return App("shop", region="us-east-1")


def renamed(context: Renamed, number: int) -> None: ...
def alias(context: Alias, number: int) -> None: ...
def dotted(context: dynadurable.JobContext, number: int) -> None: ...
def quoted(context: "dynadurable.JobContext", number: int) -> None: ...  # noqa: UP037 - a string in a string
def annotated(context: Annotated[Renamed, "mine"], number: int) -> None: ...
def optional(context: Renamed | None, number: int) -> None: ...
def by_name(ctx, number):  # type: ignore[no-untyped-def]
    ...


def for_checkers(ctx: OnlyForCheckers, number: int) -> None: ...


@pytest.mark.parametrize(
    "function",
    [renamed, alias, dotted, quoted, annotated, optional, by_name, for_checkers],
    ids=lambda one: one.__name__,
)
def test_a_context_is_known_however_its_annotation_is_spelled(app: App, function: Callable[..., None]) -> None:
    made = app.job(function)
    assert made.takes_context
    assert list(made.signature.parameters) == ["number"]


def test_an_alias_that_an_inner_function_closes_over_is_known_too(app: App) -> None:
    local = Renamed

    @app.job
    def work(context: local, number: int) -> object:  # type: ignore[valid-type]
        return local

    assert work.takes_context


def test_what_is_called_ctx_and_annotated_as_something_else_is_an_argument(app: App) -> None:
    @app.job
    def work(ctx: int) -> None: ...

    assert not work.takes_context
    assert list(work.signature.parameters) == ["ctx"]


def test_a_context_of_the_other_kind_is_refused_behind_an_alias(app: App) -> None:
    with pytest.raises(ConfigurationError, match="AsyncJobContext"):

        @app.job
        async def work(context: Alias) -> None: ...

    with pytest.raises(ConfigurationError, match="must be a JobContext"):

        @app.job
        def other(context: Annotated[AsyncJobContext, 1]) -> None: ...


def test_parameters_may_have_any_name(app: App) -> None:
    """Also those that the library's own methods have."""

    @app.job
    def work(**given: int) -> dict[str, int]:
        return given

    given = {"job": 1, "self": 2, "args": 3, "kwargs": 4, "function": 5}
    for elements in (app.transact_items(work, **given), app.aio.transact_items(work, **given)):
        data = elements[0]["Put"]["Item"]["dd_input"]["B"]
        assert work.from_payload(data).kwargs == given
    assert app.transact_models(work, **given).run_id
    assert work(**given) == given
    assert work.call(**given).kwargs == given


def holder(value: Any) -> Callable[[], Any]:
    def held() -> Any:
        return value

    return held


class Counter:
    def count(self) -> None: ...


def test_two_functions_of_one_piece_of_code_are_two(app: App) -> None:
    """The one that is registered first must not be run as the other."""
    app.job(holder([1]))
    app.job(holder([1]))
    with pytest.raises(ConfigurationError, match="two jobs are called 'held'"):
        app.job(holder([2]))
    app.job(Counter().count)
    with pytest.raises(ConfigurationError, match="two jobs are called 'count'"):
        app.job(Counter().count)


def test_a_module_may_be_imported_again(app: App) -> None:
    source = "def work(values=()):\n    return values\n"
    for _ in range(2):
        module: dict[str, Any] = {"__name__": "shop"}
        exec(source, module)
        app.job(module["work"])
    assert [job.name for job in app.registry.jobs()] == ["work"]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda: None, "name="),
        (functools.partial(print, 1), "with a name"),
        (dict, "plain function"),
        (Counter, "plain function"),
        (staticmethod(print), "plain function"),
        (7, "plain function"),
    ],
)
def test_what_has_no_name_for_the_table_is_refused(app: App, function: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        app.job(function)


def test_a_lambda_with_a_name_and_methods_are_jobs(app: App) -> None:
    assert isinstance(app.job(name="nothing")(lambda: None), Job)
    assert app.job(Counter().count).name == "count"


def test_a_default_that_a_body_changes_is_whole_again_at_the_next_start(app: App) -> None:
    """PUB-58: what one attempt does to its arguments, the next does not see."""

    @app.job
    def work(number: int = 1, seen: list[int] = [], /, *rest: int, flags: dict[str, int] = {}) -> None:  # noqa: B006
        ...

    data = work.to_payload((), {})
    for _ in range(2):
        bound = work.from_payload(data)
        assert (bound.args, bound.kwargs) == ((1, []), {"flags": {}})
        bound.args[1].append(7)
        bound.kwargs["flags"]["changed"] = 1
    assert work.digest(work.to_payload((1, []), {})) == work.digest(data)
    assert work.from_payload(work.to_payload((2, [3], 4), {})).args == (2, [3], 4)
