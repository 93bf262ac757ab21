"""Fingerprints group failures by their cause: what changes them, and what does not."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from dynadurable.errors import PayloadUnreadableError
from dynadurable.model.fingerprint import fingerprint, normalised

from .hostile import every_hostile_error


def caught(body: Callable[..., Any], *args: Any) -> BaseException:
    """The body's error with the frames from the body on, as if a worker had called it."""
    try:
        body(*args)
    except BaseException as error:  # noqa: BLE001 - any error is what is asked for
        here = error.__traceback__
        return error.with_traceback(here.tb_next if here else None)
    raise AssertionError("the body did not raise")


def code(source: str, *, file: str, module: str = "shop.jobs", lines_above: int = 0) -> dict[str, Any]:
    """The names that a module of this source defines, as if it lay in that file."""
    names: dict[str, Any] = {"__name__": module}
    exec(compile("\n" * lines_above + textwrap.dedent(source), file, "exec"), names)  # the point is the file name
    return names


CHARGE = """
    class ApiError(Exception):
        def __init__(self, *, status):
            self.status = status

    def charge(order):
        return send(order)

    def send(order):
        raise ApiError(status=order)

    def refund(order):
        return send(order)
"""
HOME = "/home/ada/shop/jobs.py"


def of(source: str, function: str, *args: Any, **where: Any) -> str:
    return fingerprint(caught(code(source, **where)[function], *args))


# --- the same cause -------------------------------------------------------------------------------


def test_the_machine_and_the_lines_do_not_matter() -> None:
    here = of(CHARGE, "charge", 1, file=HOME)
    assert of(CHARGE, "charge", 2, file=HOME, lines_above=90) == here
    assert of(CHARGE, "charge", 3, file="/srv/app/releases/2027-01-15/shop/jobs.py") == here
    assert of(CHARGE, "charge", 4, file="C:\\apps\\shop\\jobs.py") == here


def test_the_users_package_may_be_installed_like_a_library() -> None:
    here = of(CHARGE, "charge", 1, file=HOME)
    assert of(CHARGE, "charge", 1, file="/usr/lib/python3/dist-packages/shop/jobs.py") == here
    assert of(CHARGE, "charge", 1, file="C:\\venv\\Lib\\site-packages\\shop\\jobs.py") == here


def test_frames_of_libraries_do_not_matter() -> None:
    library = """
        def post(depth):
            if depth:
                return again(depth - 1)
            raise ConnectionError("refused")

        def again(depth):
            return post(depth)
    """
    post = code(library, file="/venv/lib/python3.11/site-packages/http/client.py", module="http_client")["post"]
    program = code("def job(post, depth):\n    return post(depth)", file=HOME)
    assert fingerprint(caught(program["job"], post, 0)) == fingerprint(caught(program["job"], post, 1))


def test_what_calls_the_body_does_not_matter() -> None:
    job = code("def job():\n    raise ValueError", file=HOME)["job"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        in_a_thread = pool.submit(job).exception()
    assert in_a_thread is not None
    assert fingerprint(caught(job)) == fingerprint(in_a_thread)


def test_a_comprehension_is_no_function_of_its_own() -> None:
    """Python 3.12 runs it in the frame around it, 3.11 in its own."""
    within = "def job(n):\n    return [1 // x for x in n]"
    without = "def job(n):\n    for x in n:\n        1 // x"
    assert of(within, "job", [0], file=HOME) == of(without, "job", [0], file=HOME)


RECURSIVE = """
    def walk(depth):
        if depth == 0:
            raise ValueError("leaf")
        return step(depth - 1)

    def step(depth):
        return walk(depth)

    def forever(depth=0):
        helper(depth)
        return forever(depth + 1)

    def helper(depth):
        return other(depth)

    def other(depth):
        return str(depth)

    def job():
        return forever()
"""


def test_the_depth_of_a_recursion_does_not_matter() -> None:
    depths = {of(RECURSIVE, "walk", depth, file=HOME) for depth in (1, 2, 3, 17, 200)}
    assert len(depths) == 1


def test_where_a_runaway_recursion_hits_the_limit_does_not_matter() -> None:
    job = code(RECURSIVE, file=HOME)["job"]
    limit = sys.getrecursionlimit()
    found = set()
    try:
        for more in range(7):
            sys.setrecursionlimit(limit + more)
            error = caught(job)
            assert isinstance(error, RecursionError)
            found.add(fingerprint(error))
    finally:
        sys.setrecursionlimit(limit)
    assert len(found) == 1


def test_the_rounds_of_a_retry_loop_do_not_matter() -> None:
    def retry(times: int) -> None:
        try:
            raise ConnectionError(times)
        except ConnectionError:
            if times:
                retry(times - 1)
            raise

    assert fingerprint(caught(retry, 1)) == fingerprint(caught(retry, 5))


def test_the_main_module_counts_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    main.__file__ = "/srv/app/worker.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    as_main = of(CHARGE, "charge", 1, file="/srv/app/worker.py", module="__main__")
    assert as_main == of(CHARGE, "charge", 1, file="/srv/app/worker.py", module="worker")


def test_the_number_and_order_of_a_groups_members_do_not_matter() -> None:
    def group(*errors: Exception) -> str:
        return fingerprint(ExceptionGroup("some", list(errors)))

    assert group(OSError("a 1"), ValueError("b 2")) == group(ValueError("b 3"), OSError("a 4"), OSError("a 5"))


# --- another cause --------------------------------------------------------------------------------


def test_another_function_is_another_cause() -> None:
    assert of(CHARGE, "charge", 1, file=HOME) != of(CHARGE, "refund", 1, file=HOME)


def test_another_module_is_another_cause() -> None:
    assert of(CHARGE, "charge", 1, file=HOME) != of(CHARGE, "charge", 1, file=HOME, module="shop.other")


def test_another_exception_is_another_cause() -> None:
    source = "def job(kind):\n    raise kind('boom')"
    assert of(source, "job", KeyError, file=HOME) != of(source, "job", ValueError, file=HOME)


def test_another_class_of_the_cause_is_another_cause() -> None:
    source = """
        def job(kind):
            try:
                raise kind
            except kind as error:
                raise RuntimeError from error
    """
    assert of(source, "job", KeyError, file=HOME) != of(source, "job", ValueError, file=HOME)


def test_another_method_of_the_same_name_is_another_cause() -> None:
    source = """
        class Card:
            def charge(self): raise ValueError
        class Bank:
            def charge(self): raise ValueError
        def job(kind): globals()[kind]().charge()
    """
    assert of(source, "job", "Card", file=HOME) != of(source, "job", "Bank", file=HOME)


def test_another_function_inside_a_task_group_is_another_cause() -> None:
    source = """
        import asyncio

        async def one(): raise ValueError
        async def two(): raise ValueError

        async def job(function):
            async with asyncio.TaskGroup() as group:
                group.create_task(function())
    """
    names = code(source, file=HOME)
    causes = [fingerprint(caught(asyncio.run, names["job"](names[function]))) for function in ("one", "two", "one")]
    assert causes[0] == causes[2] != causes[1]


# --- without frames -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("order 17 failed", "order 4711 failed"),
        ("user 'ada' unknown", "user 'bob' unknown"),
        ('no "x" in "y z"', 'no "a b" in "c"'),
        ("job 6f9619ff-8b86-d011-b42d-00cf4fc964ff", "job 0b0a1d64-0e13-4b24-9d62-5c5f6d4f5a6e"),
        ("at 0x7f3a2c10", "at 0xdeadbeef"),
        ("digest deadbeefcafe wrong", "digest abadcafefeed wrong"),
        ("/home/ada/app/x.json missing", "/srv/app/x.json missing"),
        ("C:\\temp\\x.json missing", "D:\\data\\deep\\x.json missing"),
        ("at 2027-01-15T12:00:00Z", "at 2028-02-16T13:01:02.345+01:00"),
        ("mail to ada@example.org bounced", "mail to bob@example.com bounced"),
        ("sizes [1, 2, 3]", "sizes [4, 5]"),
        ("GET https://a.example/x/1?y=2 failed", "GET https://b.example/z failed"),
        ("took 1.5 s", "took 17.25 s"),
        ("<Order object at 0x7f01>", "<Order object at 0x7f02>"),
        ("can't read `a`", "can't read `b`"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out_of_a_message(one: str, another: str) -> None:
    assert normalised(one) == normalised(another)
    assert fingerprint(ValueError(one)) == fingerprint(ValueError(another))


def test_without_frames_another_message_is_another_cause() -> None:
    assert fingerprint(ValueError("card expired")) != fingerprint(ValueError("address missing"))


def test_an_error_of_the_library_itself_is_told_by_its_message() -> None:
    def decode(reason: str) -> None:
        raise PayloadUnreadableError(reason, raw=b"")

    ours = FunctionType(decode.__code__, dict(globals(), __name__="dynadurable.model.codec"))
    errors = [caught(ours, reason) for reason in ("unknown version 99", "unknown version 7", "not JSON")]
    prints = [fingerprint(error) for error in errors]
    assert prints[0] == prints[1] != prints[2]


def test_a_message_of_megabytes_costs_little() -> None:
    assert len(normalised("x'" * 5_000_000)) <= 2_000


# --- it never fails -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "make"), [pytest.param(*one, id=one[0]) for one in every_hostile_error()])
def test_every_error_has_a_fingerprint(name: str, make: Callable[[], BaseException]) -> None:
    assert len(fingerprint(make())) == 16
