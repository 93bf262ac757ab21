"""Exceptions that a failure must be recorded for all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def hostile() -> Exception:
    """An exception that answers nothing. Its class is made here, because test tools ask every class of a module."""

    class SilentMeta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

    class HostileError(Exception, metaclass=SilentMeta):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __str__(self) -> str:
            raise SystemExit(3)

        def __repr__(self) -> str:
            raise KeyboardInterrupt

        def __reduce__(self) -> Any:
            raise TypeError("not to be pickled")

    return HostileError()


class NoTextError(Exception):
    """Its message is no text."""

    def __str__(self) -> str:
        answer: Any = 17
        return answer  # type: ignore[no-any-return]


class Text(str):
    """A string that does not behave as one."""

    def encode(self, *args: Any, **kwargs: Any) -> bytes:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError

    def __str__(self) -> str:
        return self


class TextError(Exception):
    """Its message is a string of a class of its own."""

    def __str__(self) -> str:
        return Text("odd")


class EndlessError(Exception):
    """Printing it never ends by itself."""

    def __str__(self) -> str:
        return str(self)


class KeywordOnlyError(Exception):
    """Cannot be built again from its arguments."""

    def __init__(self, *, status: int, detail: str) -> None:
        self.status, self.detail = status, detail


def odd_module(module: object) -> Exception:
    error: Exception = type("OddError", (Exception,), {"__module__": module})("odd")
    return error


def circle() -> Exception:
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__context__ = two, one
    return one


def long_chain(length: int = 10_000) -> Exception:
    error: Exception = ValueError("first")
    for number in range(length):
        outer = ValueError(number)
        outer.__cause__ = error
        error = outer
    return error


def deep_group(depth: int = 500) -> Exception:
    error: Exception = ValueError("innermost")
    for number in range(depth):
        error = ExceptionGroup(f"group {number}", [error])
    return error


def wide_group(members: int = 10_000) -> Exception:
    return ExceptionGroup("wide", [ValueError(f"member {number}") for number in range(members)])


def with_notes(notes: object) -> Exception:
    error = ValueError("noted")
    error.__notes__ = notes  # type: ignore[assignment]
    return error


def syntax_error() -> Exception:
    try:
        compile("a = 1\nb = = 2\n", "/srv/app/broken.py", "exec")
    except SyntaxError as error:
        return error
    raise AssertionError


def runaway() -> BaseException:
    def down() -> None:
        down()

    return caught(down)


def caught(body: Callable[[], Any]) -> BaseException:
    try:
        body()
    except BaseException as error:  # noqa: BLE001 - any error is what is asked for
        return error
    raise AssertionError("the body did not raise")


def every_hostile_error() -> Iterator[tuple[str, Callable[[], BaseException]]]:
    """Names and makers."""
    yield "hostile", hostile
    yield "no text", NoTextError
    yield "odd text", TextError
    yield "endless", EndlessError
    yield "keyword only", lambda: KeywordOnlyError(status=503, detail="x")
    for number, module in enumerate((None, 7, "", "naïve\udce9", "x" * 10_000, Text("odd"))):
        yield f"module {number}", lambda module=module: odd_module(module)  # type: ignore[misc]
    yield "circle", circle
    yield "long chain", long_chain
    yield "deep group", deep_group
    yield "wide group", wide_group
    yield "group of hostile errors", lambda: ExceptionGroup("g", [hostile(), NoTextError()])
    yield "huge message", lambda: ValueError("é" * 50_000_000)
    yield "huge control characters", lambda: ValueError("\x00" * 10_000)
    yield "surrogates", lambda: ValueError("\udc80" * 10_000)
    yield "huge arguments", lambda: ValueError(*range(10_000))
    yield "huge notes", lambda: with_notes(["n" * 100_000] * 1_000)
    for number, notes in enumerate((None, 7, "text", [7, b"x"], {"a": 1}, [Text("odd")], ("a", "\udc80"))):
        yield f"notes {number}", lambda notes=notes: with_notes(notes)  # type: ignore[misc]
    yield "syntax error", syntax_error
    yield "odd syntax error", lambda: SyntaxError("m", ("f", 1, 2, None))
    yield "runaway recursion", runaway
    yield "exit", lambda: SystemExit(3)
    yield "interrupt", KeyboardInterrupt
    yield "undecodable", lambda: UnicodeDecodeError("utf-8", b"\xff" * 100_000, 0, 1, "no")
