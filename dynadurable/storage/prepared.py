"""Requests that are sent for every job: their expressions are built once, later ones get their values only.

PynamoDB builds the request for the first call, from the models, as for every other. What differs between two calls of
the same kind are values, so each is built with a *probe* in its place, and the request is kept with the places where
the probes have come out. That costs a tenth of building it anew.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import requests
from .call import Call
from .items import Item

Params = ParamSpec("Params")
ModelType = TypeVar("ModelType", bound=Item)
Value = str | int | bytes | None

_EXPRESSIONS = ("UpdateExpression", "ConditionExpression")
_OUR_NAME = re.compile(r"dd_[a-z0-9]+")  # no word that DynamoDB reserves
_FIRST_PROBE = 10**30


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the request a value belongs: an attribute of its ``Key``, or one of its expressions' values."""

    part: str
    name: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class _Template:
    """A request without its values."""

    call: Call
    places: tuple[_Place, ...]

    def fill(self, values: Mapping[str, Any]) -> Call:
        params = dict(self.call.params)
        for part in ("Key", "ExpressionAttributeValues"):
            if part in params:
                params[part] = dict(params[part])
        for place in self.places:
            value = values[place.value]
            params[place.part][place.name] = {place.kind: str(value) if place.kind == "N" else value}
        return Call(operation=self.call.operation, params=params)


def prepared(
    build: Callable[Concatenate[type[ModelType], Params], Call],
) -> Callable[Concatenate[type[ModelType], Params], Call]:
    """``build(model, **values)`` gives a request by ``requests.update`` or ``delete``; values are only handed on.

    A value is text, a whole number, bytes or ``None``. Which of them are ``None`` may make it another request; what the
    others are may not.
    """
    templates: dict[Any, _Template] = {}

    @functools.wraps(build)
    def filled(model: type[ModelType], /, *_: Params.args, **values: Params.kwargs) -> Call:
        # The functions that build are looked up anew: a test that replaces them must not get what others have built.
        shape = (model, requests.update, requests.delete, *map(type, values.values()))
        template = templates.get(shape)
        if template is None:
            template = templates[shape] = _template(build, model, values)
        return template.fill(values)

    return filled


def put_new(model: type[ModelType], item: ModelType) -> Call:
    """PutItem of what must not be there yet, of a kind that is put often."""
    shape = (model, requests.put)
    call = _puts.get(shape)
    if call is None:
        call = _puts[shape] = requests.put(item, model.pk.does_not_exist())
    return Call(operation=call.operation, params={**call.params, "Item": item.serialize()})


_puts: dict[Any, Call] = {}


def _template(build: Callable[..., Call], model: type[Item], values: dict[str, Any]) -> _Template:
    probes = {name: _probe(number, value) for number, (name, value) in enumerate(values.items())}
    call = build(model, **probes)
    names = {_stored(probe): name for name, probe in probes.items() if probe is not None}
    places = [
        _Place(part, name, kind, names[stored])
        for part in ("Key", "ExpressionAttributeValues")
        for name, typed in call.params.get(part, {}).items()
        for kind, stored in typed.items()
        if not isinstance(stored, (list, dict)) and stored in names
    ]
    lost = set(names.values()) - {place.value for place in places}
    if lost:
        raise TypeError(f"{build.__qualname__}: {', '.join(sorted(lost))} does not come out in the request")
    return _Template(_with_plain_names(call), tuple(places))


def _probe(number: int, value: Value) -> Value:
    match value:
        case None:
            return None
        case str():
            return f"probe {number}"
        case bytes():
            return f"probe {number}".encode()
    if type(value) is not int:
        raise TypeError(f"{value!r} is neither text nor a whole number nor bytes")
    return _FIRST_PROBE + number


def _stored(probe: Value) -> str | bytes:
    return str(probe) if isinstance(probe, int) else probe or ""


def _with_plain_names(call: Call) -> Call:
    """Our own attributes by their names: each name that is handed over apart costs more than its part of the text."""
    params = dict(call.params)
    names = params.pop("ExpressionAttributeNames", {})
    plain = {placeholder: name for placeholder, name in names.items() if _OUR_NAME.fullmatch(name)}
    for part in _EXPRESSIONS:
        if part in params:
            params[part] = re.sub(r"#\w+", lambda found: plain.get(found[0], found[0]), params[part])
    others = {placeholder: name for placeholder, name in names.items() if placeholder not in plain}
    if others:
        params["ExpressionAttributeNames"] = others
    return Call(operation=call.operation, params=params, repeatable=call.repeatable)
