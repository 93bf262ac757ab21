"""Points an app that is defined somewhere at another store and clock, for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynadurable.app import App
from dynadurable.clock import Clock
from dynadurable.model.queue import Queue


@contextmanager
def redirected(app: App, *, table: str, client: Any, clock: Clock, shards: int | None = None) -> Iterator[App]:
    """While inside, ``app`` and its jobs work on that table, through that client, by that clock.

    The app itself is changed, so code under test that imports it need not know. ``shards``: so many for each queue that
    it knows, where fewer make a test quicker.

    >>> with redirected(shop.app, table="test", client=client, clock=clock):  # doctest: +SKIP
    ...     shop.place_order(order)
    """
    before = dict(app.__dict__)
    twin = App(
        table,
        client=client,
        partition_key=app.schema.partition_key,
        sort_key=app.schema.sort_key,
        ttl=app.schema.ttl,
        prefix=app.schema.prefix,
        queues=_queues(app, shards),
        build=app.build,
        clock=clock,
    )
    twin.retention = app.retention
    twin.registry = twin.operations.registry = app.registry
    app.__dict__.clear()
    app.__dict__.update(twin.__dict__)
    try:
        yield app
    finally:
        app.__dict__.clear()
        app.__dict__.update(before)


def _queues(app: App, shards: int | None) -> list[Queue]:
    if shards is None:
        return app.operations.declared_queues()
    return [Queue(name=name, shards=shards) for name in app.operations.known_queues()]
