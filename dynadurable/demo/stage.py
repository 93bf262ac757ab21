"""Everything that is up while the story is told: the store, the door in front of it, the filled table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import boto3
from botocore.config import Config

from ..app import App
from ..clock import Clock
from ..drivers.clients import client_config
from ..local import LocalStore
from . import place
from .door import Door, Passage
from .load import load
from .screen import Screen
from .tally import Tally

if TYPE_CHECKING:
    from krabber.graph import Graph

MAX_CONNECTIONS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What may be chosen."""

    followers: int = 10_000
    kills: int = 1
    store: str | None = None
    lease_seconds: float = 3.0

    def kill_at(self, number: int, followers: int) -> int:
        """How many followers the checkpoint covers at least when a worker is killed for the ``number``th time, from 1.

        One kill comes at 40 %, more are spread evenly.
        """
        share = 0.4 if self.kills == 1 else number / (self.kills + 1)
        return max(1, int(followers * share))


class Stage:
    """Set up with ``with``; nothing of it stays behind."""

    def __init__(self, settings: Settings, screen: Screen, clock: Clock, graph: Graph) -> None:
        from krabber import app, models

        self.krabber = app
        self.table = models.TABLE
        self.settings = settings
        self.screen = screen
        self.clock = clock
        self.graph = graph
        self.star = max(graph.followers, key=lambda krab: len(graph.followers[krab]))
        self.followers = len(graph.followers[self.star])
        self.tally = Tally(app.app.items, self.clock, ours=f"queue#{app.deliver.queue}#", entries="trench#")
        self.on_passage: Callable[[Passage], None] = _nothing
        """Called when a request has been counted, before its sender gets the reply."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dynadurable-demo-")))
            self.store = stack.enter_context(LocalStore.find(self.settings.store))
            self.door = stack.enter_context(Door(self.store.port, self._observe))
            self.reader = client_of(self.store, self.store.endpoint_url)
            stack.callback(self.reader.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fill(self) -> None:
        """Make the table and put the krabs and followings into it."""
        App(self.table, client=self.reader, clock=self.clock).create_table()
        with self.screen.bar("filling the table", len(self.graph.krabs) + self.graph.followings) as bar:
            load(self.store, self.table, self.graph.items(), wrote=bar.further)

    def post(self, text: str) -> Any:
        """The most popular krab posts a molt, through the door."""
        client = client_of(self.store, self.door.endpoint_url)
        try:
            return self.krabber.post(client, self.star, text)
        finally:
            client.close()

    def _observe(self, passage: Passage) -> None:
        self.tally.observe(passage)
        self.on_passage(passage)


def make_graph(followers: int) -> Graph:
    """Krabs, one of whom has at least so many followers.

    Raises:
        ExtraMissingError: what the example needs is not installed.
    """
    place.put_on_path()
    from krabber.graph import with_star

    return with_star(followers)


def _nothing(_passage: Passage) -> None:
    """Nobody wants to know."""


def client_of(store: LocalStore, endpoint_url: str) -> Any:
    """A client that nothing on this machine can send elsewhere."""
    config = client_config(MAX_CONNECTIONS).merge(Config(proxies={}))
    return boto3.Session().client("dynamodb", config=config, **{**store.client_kwargs(), "endpoint_url": endpoint_url})
