"""Reading and rewriting parts of an item by document paths; nothing is changed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dynadurable.testing.memory.refusal import RefusalError, invalid
from dynadurable.testing.memory.syntax import Elements
from dynadurable.testing.memory.value import Item, Value

Edit = Value | None  # the new value, or None to remove what stands there
Tree = dict[Any, Any]  # element -> Tree or _Leaf


class _Leaf:
    __slots__ = ("edit",)

    def __init__(self, edit: Edit) -> None:
        self.edit = edit


def reader(elements: Elements) -> Callable[[Item], Value | None]:
    """A function that finds the value at a path in an item, or None."""
    if len(elements) == 1:
        name = elements[0]
        return lambda item: item.get(name)
    return lambda item: find(item, elements)


def find(item: Item, elements: Elements) -> Value | None:
    """The value at a path, or None."""
    value = item.get(elements[0])
    for element in elements[1:]:
        if value is None:
            return None
        if type(element) is int:
            members = value.get("L", ())
            value = members[element] if element < len(members) else None
        else:
            value = value.get("M", {}).get(element)
    return value


def pick(item: Item, paths: Iterable[Elements]) -> Item:
    """A new item of only what stands at these paths, each at its place; lists close their gaps."""
    tree: Tree = {}
    for elements in paths:
        value = find(item, elements)
        if value is not None:
            _plant(tree, elements, _Leaf(value))
    return {name: _picked(branch) for name, branch in tree.items()}


def edit(item: Item, edits: Iterable[tuple[Elements, Edit]]) -> Item:
    """A new item with all edits made at once: indexes mean places before any of them.

    Raises:
        RefusalError: a path leads through something that is absent or of another type.
    """
    tree: Tree = {}
    for elements, change in edits:
        _plant(tree, elements, _Leaf(change))
    return _edited_map(item, tree)


def _plant(tree: Tree, elements: Elements, leaf: _Leaf) -> None:
    for element in elements[:-1]:
        tree = tree.setdefault(element, {})
    tree[elements[-1]] = leaf


def _picked(branch: Tree | _Leaf) -> Value:
    if isinstance(branch, _Leaf):
        assert branch.edit is not None
        return branch.edit
    if type(next(iter(branch))) is int:
        return {"L": [_picked(branch[index]) for index in sorted(branch)]}
    return {"M": {name: _picked(inner) for name, inner in branch.items()}}


def _edited_map(members: Item, tree: Tree) -> Item:
    edited = dict(members)
    for name, branch in tree.items():
        if not isinstance(branch, _Leaf):
            edited[name] = _edited(members.get(name), branch)
        elif branch.edit is None:
            edited.pop(name, None)
        else:
            edited[name] = branch.edit
    return edited


def _edited_list(members: list[Value], tree: Tree) -> list[Value]:
    edited: list[Value | None] = list(members)
    for index in sorted(tree):
        branch = tree[index]
        if not isinstance(branch, _Leaf):
            edited[index] = _edited(members[index] if index < len(members) else None, branch)
        elif index < len(members):
            edited[index] = branch.edit
        elif branch.edit is not None:
            edited.append(branch.edit)  # beyond the end means at the end, in the order of the indexes
    return [member for member in edited if member is not None]


def _edited(value: Value | None, tree: Tree) -> Value:
    through_list = type(next(iter(tree))) is int
    if value is None or ("L" if through_list else "M") not in value:
        raise _invalid_path()
    return {"L": _edited_list(value["L"], tree)} if through_list else {"M": _edited_map(value["M"], tree)}


def _invalid_path() -> RefusalError:
    return invalid("The document path provided in the update expression is invalid for update")
