"""Updates made into functions: what an item becomes, computed from the item as it was before."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dynadurable.testing.memory import document, number, size, value
from dynadurable.testing.memory.predicate import Check, Values
from dynadurable.testing.memory.refusal import RefusalError, invalid
from dynadurable.testing.memory.syntax import (
    Arithmetic,
    Elements,
    IfNotExists,
    ListAppend,
    Literal,
    Path,
    Source,
    Update,
)
from dynadurable.testing.memory.value import NESTING_LEVELS, SETS, Item, Value

Compute = Callable[[Item, Values], Value | None]
Addend = tuple[Elements, str]


class Mutation:
    """A compiled update.

    ``creates`` tells whether it makes an item where there was none: one that only takes away does not.
    """

    def __init__(self, update: Update) -> None:
        self.targets: tuple[Elements, ...] = tuple(path.elements for path in update.targets)
        self.names = frozenset(str(elements[0]) for elements in self.targets)
        self.creates = bool(update.sets or update.adds)
        self.checks = tuple(_to_checks(update))
        self._sets = tuple((path.elements, _to_compute(source)) for path, source in update.sets)
        self._adds: tuple[Addend, ...] = tuple((path.elements, literal.ref) for path, literal in update.adds)
        self._deletes: tuple[Addend, ...] = tuple((path.elements, literal.ref) for path, literal in update.deletes)
        self._removes = tuple(path.elements for path in update.removes)
        self._flat = all(len(elements) == 1 for elements in self.targets)

    def apply(self, item: Item, values: Values) -> Item:
        """The new item; the old one stays as it is.

        Raises:
            RefusalError: an operand is absent or of the wrong type, or a path leads nowhere.
        """
        return self._apply_flat(item, values) if self._flat else document.edit(item, self._edits(item, values))

    def growth(self, old: Item, new: Item) -> int:
        """How many bytes more than ``old`` the item ``new`` has, which this made of it."""
        grown = 0
        for name in self.names:
            before, after = old.get(name), new.get(name)
            if before is not None:
                grown -= size.of_attribute(name, before)
            if after is not None:
                grown += size.of_attribute(name, after)
        return grown

    def _apply_flat(self, item: Item, values: Values) -> Item:
        edited = dict(item)
        for elements, compute in self._sets:
            edited[elements[0]] = _present(compute(item, values))
        if self._removes:
            for elements in self._removes:
                edited.pop(elements[0], None)
        if self._adds or self._deletes:
            edited = document.edit(edited, self._set_edits(item, values))
        return edited

    def _edits(self, item: Item, values: Values) -> Iterator[tuple[Elements, document.Edit]]:
        for elements, compute in self._sets:
            computed = _present(compute(item, values))
            if len(elements) > 1 and len(elements) - 1 + value.depth_of(computed) > NESTING_LEVELS:
                raise invalid(f"Nesting Levels have exceeded supported limits: more than {NESTING_LEVELS}")
            yield elements, computed
        for elements in self._removes:
            yield elements, None
        yield from self._set_edits(item, values)

    def _set_edits(self, item: Item, values: Values) -> Iterator[tuple[Elements, document.Edit]]:
        for elements, ref in self._adds:
            yield elements, _sum(document.find(item, elements), values[ref])
        for elements, ref in self._deletes:
            yield elements, _difference(document.find(item, elements), values[ref])


# --- right-hand sides -----------------------------------------------------------------------------


def _to_compute(source: Source) -> Compute:
    match source:
        case Literal(ref):
            return lambda _item, values: values[ref]
        case Path(elements):
            read = document.reader(elements)
            return lambda item, _values: read(item)
        case IfNotExists(path, fallback):
            read, otherwise = document.reader(path.elements), _to_compute(fallback)
            return lambda item, values: found if (found := read(item)) is not None else otherwise(item, values)
        case ListAppend():
            left, right = _to_compute(source.left), _to_compute(source.right)
            return lambda item, values: {"L": _list(left(item, values)) + _list(right(item, values))}
        case Arithmetic():
            left, right = _to_compute(source.left), _to_compute(source.right)
            combine = number.add if source.operator == "+" else number.subtract
            return lambda item, values: _result(combine, left(item, values), right(item, values))


def _present(found: Value | None) -> Value:
    if found is None:
        raise invalid("The provided expression refers to an attribute that does not exist in the item")
    return found


def _list(found: Value | None) -> list[Value]:
    members = _present(found).get("L")
    if members is None:
        raise _wrong_type()
    return members  # type: ignore[no-any-return]


def _result(combine: Callable[[str, str], str], left: Value | None, right: Value | None) -> Value:
    left_text, right_text = _present(left).get("N"), _present(right).get("N")
    if left_text is None or right_text is None:
        raise _wrong_type()
    try:
        return {"N": combine(left_text, right_text)}
    except number.NumberRefusedError as error:
        raise invalid(str(error)) from None


def _wrong_type() -> RefusalError:
    return invalid("An operand in the update expression has an incorrect data type")


# --- ADD and DELETE -------------------------------------------------------------------------------


def _sum(found: Value | None, added: Value) -> Value:
    if found is None:
        return added
    kind = value.to_kind(added)
    if kind not in found:
        raise _wrong_type()
    if kind == "N":
        return _result(number.add, found, added)
    return value.set_of(kind, {*found[kind], *added[kind]})


def _difference(found: Value | None, taken: Value) -> Value | None:
    if found is None:
        return None
    kind = value.to_kind(taken)
    if kind not in found:
        raise _wrong_type()
    left = set(found[kind]).difference(taken[kind])
    return value.set_of(kind, left) if left else None


# --- checks of the values that come with a request --------------------------------------------------


def _to_checks(update: Update) -> Iterator[Check]:
    for _, source in update.sets:
        yield from _source_checks(source)
    for _, literal in update.adds:
        yield _type_check("ADD", literal, SETS | {"N"})
    for _, literal in update.deletes:
        yield _type_check("DELETE", literal, SETS)


def _source_checks(source: Source) -> Iterator[Check]:
    match source:
        case IfNotExists():
            yield from _source_checks(source.fallback)
        case ListAppend() | Arithmetic():
            name, kind = ("list_append", "L") if isinstance(source, ListAppend) else (source.operator, "N")
            for operand in (source.left, source.right):
                if isinstance(operand, Literal):
                    yield _type_check(name, operand, frozenset({kind}))
                else:
                    yield from _source_checks(operand)
        case _:
            pass


def _type_check(name: str, literal: Literal, allowed: frozenset[str]) -> Check:
    ref = literal.ref

    def check(values: Values) -> None:
        if values[ref].keys().isdisjoint(allowed):
            raise invalid(f"Incorrect operand type for {name}; operand type: {value.to_kind(values[ref])}")

    return check
