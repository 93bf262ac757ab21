"""Reads the code of workflows for what would not be the same on replay: clocks, dice, the environment, the network.

Names are looked up in the module that the function lives in, so ``from datetime import datetime as dt; dt.now()`` is
found and a ``now()`` of one's own is not. Functions of the same package that a workflow calls are read too. What is
given to ``ctx.step`` and its kin is a step's body, and free to do as it likes.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from ..model.job import Job

MAX_DEPTH = 5
"""So many calls deep a workflow's helpers are followed."""
STEP_METHODS = {"step", "wait_for", "on_failure"}
BRANCH_METHODS = {"map", "parallel", "group"}

_CLOCK = "use ctx.now(), or do it in a step"
_DICE = "use ctx.random(), ctx.dice() or ctx.uuid(), or do it in a step"
_STEP = "do it in a step"
_SLEEP = "use ctx.sleep()"
FORBIDDEN: tuple[tuple[str, str, str], ...] = (
    ("datetime.datetime.now", "reads the clock", _CLOCK),
    ("datetime.datetime.utcnow", "reads the clock", _CLOCK),
    ("datetime.datetime.today", "reads the clock", _CLOCK),
    ("datetime.date.today", "reads the clock", _CLOCK),
    ("time.sleep", "waits without being recorded", _SLEEP),
    ("asyncio.sleep", "waits without being recorded", _SLEEP),
    ("asyncio.tasks.sleep", "waits without being recorded", _SLEEP),
    ("time.", "reads the clock", _CLOCK),
    ("uuid.uuid1", "is another one on replay", _DICE),
    ("uuid.uuid4", "is another one on replay", _DICE),
    ("random.", "is another one on replay", _DICE),
    ("secrets.", "is another one on replay", _DICE),
    ("os.urandom", "is another one on replay", _DICE),
    ("os.getenv", "reads the environment", "read it in a step, or pass it as an argument"),
    ("os.environ", "reads the environment", "read it in a step, or pass it as an argument"),
    ("os.getpid", "is another one on replay", _STEP),
    ("socket.", "uses the network", _STEP),
    ("urllib.request.", "uses the network", _STEP),
    ("http.client.", "uses the network", _STEP),
    ("requests.", "uses the network", _STEP),
    ("httpx.", "uses the network", _STEP),
    ("aiohttp.", "uses the network", _STEP),
    ("boto3.", "uses the network", _STEP),
    ("subprocess.", "starts a program", _STEP),
    ("threading.", "uses threads", "use ctx.map() or ctx.parallel()"),
    ("multiprocessing.", "uses processes", "use ctx.map() or ctx.start()"),
    ("concurrent.futures.", "uses threads", "use ctx.map() or ctx.parallel()"),
    ("asyncio.threads.to_thread", "uses threads", _STEP),
    ("io.open", "reads or writes a file", _STEP),
    ("builtins.open", "reads or writes a file", _STEP),
    ("builtins.input", "asks somebody", _STEP),
)
SEEDED = ("random.Random", "datetime.timezone", "time.struct_time", "time.strftime", "time.strptime")
"""What looks like the above and is the same on every replay, given the same arguments."""
CONTAINERS = {"list", "tuple", "enumerate", "iter", "next", "map", "filter", "zip"}


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Finding:
    """One place in a workflow's code that may differ on replay."""

    file: str
    line: int
    workflow: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what} in workflow {self.workflow!r}: {self.remedy}"


def check_workflows(jobs: Iterable[Job[Any, Any]]) -> list[Finding]:
    """What may differ on replay, over all workflows among these jobs, by file and line.

    >>> check_workflows([])
    []
    """
    found: set[Finding] = set()
    for job in jobs:
        if job.is_workflow:
            found.update(_Reader(job.name).read(inspect.unwrap(job.function), depth=0))
    return sorted(found)


class _Reader:
    """Reads one workflow's function, and the helpers that it calls, each once."""

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self._seen: set[int] = set()

    def read(self, function: Any, *, depth: int) -> Iterator[Finding]:
        if not isinstance(function, FunctionType) or id(function.__code__) in self._seen:
            return
        self._seen.add(id(function.__code__))
        tree = _tree_of(function)
        if tree is None:
            return
        scope = _Scope(function)
        package = function.__module__.partition(".")[0]
        for node in _own_code(tree, scope):
            finding = self._judged(node, scope, function)
            if finding is not None:
                yield finding
            called = scope.value_of(node.func) if isinstance(node, ast.Call) else None
            if depth < MAX_DEPTH and (getattr(called, "__module__", None) or "").partition(".")[0] == package:
                yield from self.read(called, depth=depth + 1)

    def _judged(self, node: ast.AST, scope: _Scope, function: FunctionType) -> Finding | None:
        found: tuple[str, str] | None = None
        if isinstance(node, ast.Call):
            found = _of_name(scope.name_of(node.func)) or _of_set(node, scope)
        elif isinstance(node, ast.Subscript):
            found = _of_name(scope.name_of(node.value))
        elif isinstance(node, (ast.For, ast.comprehension)) and _is_set(node.iter, scope):
            found = _SET_ORDER
        if found is None:
            return None
        line = getattr(node, "lineno", 0) or getattr(getattr(node, "iter", None), "lineno", 0)
        place = function.__code__.co_firstlineno + line - 1
        return Finding(
            file=function.__code__.co_filename, line=place, workflow=self._workflow, what=found[0], remedy=found[1]
        )


_SET_ORDER = ("the order of a set differs from process to process", "sort it first")


def _of_name(name: str) -> tuple[str, str] | None:
    if not name or name.startswith(SEEDED):
        return None
    for forbidden, what, remedy in FORBIDDEN:
        if (
            name == forbidden
            or (forbidden.endswith(".") and name.startswith(forbidden))
            or (forbidden == "os.environ" and name.startswith("os.environ"))
        ):
            return f"{name} {what}", remedy
    return None


def _of_set(call: ast.Call, scope: _Scope) -> tuple[str, str] | None:
    """A set that is turned into something with an order."""
    is_container = isinstance(call.func, ast.Name) and call.func.id in CONTAINERS
    return _SET_ORDER if is_container and any(_is_set(one, scope) for one in call.args) else None


def _is_set(node: ast.expr, scope: _Scope) -> bool:
    if isinstance(node, (ast.Set, ast.SetComp)):
        return True
    if isinstance(node, ast.Call):
        return scope.name_of(node.func) in ("builtins.set", "builtins.frozenset")
    return isinstance(node, ast.Name) and node.id in scope.sets


class _Scope:
    """What the names in a function's code mean."""

    def __init__(self, function: FunctionType) -> None:
        closure = inspect.getclosurevars(function)
        self._known: Mapping[str, Any] = {**vars(builtins), **function.__globals__, **closure.nonlocals}
        names = [*function.__code__.co_varnames, *function.__code__.co_cellvars]
        self._local = set(names)
        self.sets: set[str] = set()
        self.contexts = {"ctx"} | set(names[:1])

    def learn(self, node: ast.AST) -> None:
        """Take in what an assignment or an import inside the function says of a name."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            self.sets.discard(name)
            if _is_set(node.value, self):
                self.sets.add(name)

    def value_of(self, node: ast.expr) -> Any:
        """The object that a dotted name stands for; ``None`` for what only the run knows."""
        if isinstance(node, ast.Name):
            return None if node.id in self._local else self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            if isinstance(owner, (ModuleType, type)):
                return inspect.getattr_static(owner, node.attr, None)
        return None

    def name_of(self, node: ast.expr) -> str:
        """The full name of what is called, wherever it was imported from and under whichever name."""
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            if isinstance(owner, ModuleType):
                return _full_name(getattr(owner, node.attr, None)) or f"{owner.__name__}.{node.attr}"
            if isinstance(owner, type):
                return f"{owner.__module__}.{owner.__qualname__}.{node.attr}"
            if owner is os.environ:
                return f"os.environ.{node.attr}"
            bound = _full_name(owner)
            return f"{bound}.{node.attr}" if bound else ""
        value = self.value_of(node)
        return "os.environ" if value is os.environ else _full_name(value)

    def is_context(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.contexts


def _full_name(value: Any) -> str:
    """Module and name of a function or class. Bound methods of hidden generators count as their module's functions."""
    if value is None or isinstance(value, ModuleType):
        return ""
    name, module = getattr(value, "__qualname__", ""), getattr(value, "__module__", None)
    owner = getattr(value, "__self__", None)
    if module is None and owner is not None and not isinstance(owner, ModuleType):
        module = type(owner).__module__
        name = name.rpartition(".")[2]
    elif owner is not None and not isinstance(owner, (ModuleType, type)):
        name = name.rpartition(".")[2]
    return f"{module}.{name}" if name and module else ""


def _tree_of(function: FunctionType) -> ast.AST | None:
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree: ast.AST = ast.parse(source).body[0]
    except (OSError, SyntaxError, TypeError, IndexError):
        return None  # no source, or a lambda in the middle of a line
    return tree


def _own_code(tree: ast.AST, scope: _Scope) -> Iterator[ast.AST]:
    """The nodes that run in the workflow itself, in order: not decorators, annotations, and what is a step's body."""
    bodies = _step_bodies(tree, scope)

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        scope.learn(node)
        yield node
        for child in ast.iter_child_nodes(node):
            is_body = id(child) in bodies or (isinstance(child, _FUNCTIONS) and child.name in bodies)
            if not is_body:
                yield from walk(child)

    for statement in getattr(tree, "body", []) if not isinstance(tree, ast.Lambda) else [tree.body]:
        if not (isinstance(statement, _FUNCTIONS) and statement.name in bodies):
            yield from walk(statement)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _step_bodies(tree: ast.AST, scope: _Scope) -> set[Any]:
    """What is given to a step: lambdas by their node, functions that are defined inside by their name."""
    bodies: set[Any] = set()
    defined = {node.name: node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if not (isinstance(call.func, ast.Attribute) and scope.is_context(call.func.value)):
            continue
        method = call.func.attr
        if method in STEP_METHODS | BRANCH_METHODS:
            given = [*call.args, *(one.value for one in call.keywords if one.arg == "compensate")]
            for one in (part for arg in given for part in (arg.elts if isinstance(arg, ast.Tuple) else [arg])):
                if isinstance(one, ast.Lambda) and not _is_branch(method, one):
                    bodies.add(id(one))
                elif isinstance(one, ast.Name) and one.id in defined and not _is_branch(method, defined[one.id]):
                    bodies.add(one.id)
    return bodies


def _is_branch(method: str, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether what is given to that method is code of its own that gets a context, and not a step's body."""
    if method not in BRANCH_METHODS:
        return False
    first = next(iter([*node.args.posonlyargs, *node.args.args]), None)
    if first is None:
        return False
    return first.arg == "ctx" or (first.annotation is not None and "WorkflowContext" in ast.unparse(first.annotation))
