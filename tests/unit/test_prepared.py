"""Requests whose expressions are built once are the same as those built anew."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynadurable.storage import formats, prepared, requests
from dynadurable.storage.call import Call
from dynadurable.storage.items import Item, Mark, bind
from dynadurable.storage.prepared import put_new
from dynadurable.storage.schema import TableSchema

MODELS = [
    bind(TableSchema(table="shop", prefix="d#")).mark,
    bind(TableSchema(table="other", partition_key="own", sort_key="name")).mark,
]
TEXT = st.text(min_size=1, max_size=20)
NUMBER = st.integers(-(10**30), 10**33)


def _build(model: type[Mark], *, pk: str, sk: str, token: str, now_ms: int, counts: int, cursor: bytes | None) -> Call:
    free = model.lease_until_ms.does_not_exist() | (model.lease_until_ms < now_ms)
    condition = model.pk.exists() & formats.not_newer(model) & free
    actions = [model.token.set(token), model.attempt.set(model.attempt + counts), model.lease_until_ms.set(now_ms)]
    actions.append(model.cursor.remove() if cursor is None else model.cursor.set(cursor))
    return requests.update(model, pk, sk, actions, condition, returning="ALL_NEW")


filled = prepared.prepared(_build)


def spelled_out(call: Call) -> dict[str, Any]:
    """The request with names and values in its expressions, so that it does not matter what stands for them."""
    params = dict(call.params)
    meant = {**params.pop("ExpressionAttributeNames", {}), **params.pop("ExpressionAttributeValues", {})}
    for part in ("UpdateExpression", "ConditionExpression"):
        params[part] = re.sub(r"[#:]\w+", lambda found: str(meant[found[0]]), params[part])
    return params


@given(
    model=st.sampled_from(MODELS),
    pk=TEXT,
    sk=TEXT,
    token=TEXT,
    now_ms=NUMBER,
    counts=NUMBER,
    cursor=st.none() | st.binary(max_size=9),
)
def test_a_prepared_request_is_the_one_that_would_be_built(model: type[Mark], **values: Any) -> None:
    for _ in range(2):
        call = filled(model, **values)
        assert call.operation == "UpdateItem"
        assert spelled_out(call) == spelled_out(_build(model, **values))


def test_one_request_does_not_change_another() -> None:
    values: dict[str, Any] = {"pk": "p", "sk": "s", "now_ms": 1, "counts": 1, "cursor": None}
    first = filled(MODELS[0], token="first", **values)
    filled(MODELS[0], token="second", **values)
    assert first.params == filled(MODELS[0], token="first", **values).params


def test_names_of_the_owner_are_never_part_of_the_text() -> None:
    call = filled(MODELS[1], pk="p", sk="s", token="t", now_ms=1, counts=1, cursor=None)
    assert "name" not in call.params["ConditionExpression"]
    assert call.params["Key"] == {"own": {"S": "p"}, "name": {"S": "s"}}


def test_what_cannot_be_prepared_is_said() -> None:
    @prepared.prepared
    def forgets(model: type[Item], *, pk: str, sk: str, other: int) -> Call:
        return requests.delete(model, pk, sk)

    with pytest.raises(TypeError, match="other does not come out"):
        forgets(MODELS[0], pk="p", sk="s", other=1)
    with pytest.raises(TypeError, match=r"1\.5 is neither text"):
        filled(MODELS[0], pk="p", sk="s", token="t", now_ms=1.5, counts=1, cursor=None)  # type: ignore[arg-type]


def test_a_new_item_is_put_as_any_other() -> None:
    for model in MODELS:
        for token in (None, "t"):
            mark = model(pk="p", sk="s", job="work", input=b"\x00", token=token)
            assert put_new(model, mark) == requests.put(mark, model.pk.does_not_exist())
