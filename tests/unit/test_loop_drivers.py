"""Which driver an event loop gets: one each, made once, closed with the loop, never taken over a fork."""

from __future__ import annotations

import asyncio
import importlib
import logging
import multiprocessing
import threading
from typing import Any

import pytest

from dynadurable.clock import SystemClock
from dynadurable.drivers.boto3 import Boto3Driver
from dynadurable.drivers.clients import ClientSettings
from dynadurable.drivers.loops import LoopDrivers
from dynadurable.errors import ConfigurationError
from dynadurable.storage.call import Call, Response


class SyncClient:
    """As much of a boto3 client as is asked here."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self._endpoint = self
        self.http_session = self

    def close(self) -> None:
        """The pools of a fork's parent are dropped."""

    def get_item(self, **_: Any) -> Response:
        self.threads.add(threading.current_thread().name)
        return {"Item": {"pk": {"S": "x"}}}


class LoopClient:
    """As much of an aioboto3 client."""

    async def get_item(self, **_: Any) -> Response:
        return {"Item": {"pk": {"S": "loop"}}}


async def ask() -> Response:
    reply: Response = await Call(operation="GetItem", params={})
    return reply


def drivers(**settings: Any) -> LoopDrivers:
    given = ClientSettings(**settings)
    return LoopDrivers(given, Boto3Driver(lambda: given.client, SystemClock()), SystemClock())


def aio_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("dynadurable-aio")]


def test_a_loop_has_one_driver_and_another_loop_another() -> None:
    made = drivers(client=SyncClient())

    async def main() -> Any:
        first, second = await asyncio.gather(made.get(), made.get())
        assert first is second
        return first

    assert asyncio.run(main()) is not asyncio.run(main())


def test_a_loop_that_ends_closes_its_driver() -> None:
    made = drivers(client=SyncClient())

    async def main() -> None:
        await asyncio.gather(*(made.run(ask()) for _ in range(40)))
        assert 1 <= len(aio_threads()) <= 16

    for _ in range(2):
        asyncio.run(main())
        assert aio_threads() == []
    assert len(made._slots) == 0


def test_close_may_be_called_twice_and_the_next_request_opens_again() -> None:
    made = drivers(client=SyncClient())

    async def main() -> None:
        await made.close()
        await made.run(ask())
        await made.close()
        await made.close()
        assert aio_threads() == []
        await made.run(ask())
        await made.close()

    asyncio.run(main())


def test_a_loop_that_was_closed_without_ending_anything_is_forgotten() -> None:
    made = drivers(aio_client=LoopClient())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(made.run(ask()))
    loop.close()
    made._client_loop = None
    asyncio.run(made.run(ask()))
    assert len(made._slots) == 0


def test_a_client_of_the_apps_own_belongs_to_one_loop() -> None:
    async def make() -> LoopDrivers:
        return drivers(aio_client=LoopClient())

    made = asyncio.run(make())
    with pytest.raises(ConfigurationError, match="aio_session="):
        asyncio.run(made.run(ask()))


def test_a_client_of_the_apps_own_belongs_to_the_loop_that_first_uses_it() -> None:
    made = drivers(aio_client=LoopClient())
    asyncio.run(made.run(ask()))
    with pytest.raises(ConfigurationError, match="another"):
        asyncio.run(made.run(ask()))


def test_a_loop_of_the_workers_own_does_not_touch_the_apps_client() -> None:
    made = drivers(aio_client=LoopClient(), client=SyncClient())

    async def main() -> Response:
        return await (await made.get(worker_loop=True)).run(ask())

    assert asyncio.run(main())["Item"] == {"pk": {"S": "x"}}
    assert asyncio.run(made.run(ask()))["Item"] == {"pk": {"S": "loop"}}


def test_without_a_client_for_loops_it_says_so_once_at_debug(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    made = drivers(region="us-east-1")
    with caplog.at_level(logging.DEBUG, logger="dynadurable"):
        for _ in range(2):
            asyncio.run(made.get())
    told = [(record.name, record.levelname) for record in caplog.records]
    assert told == [("dynadurable.aio", "DEBUG")]
    assert "pip install 'dynadurable[aio]'" in caplog.text


def test_many_threads_and_loops_make_their_first_request_at_once() -> None:
    """PUB-59."""
    client = SyncClient()
    made = drivers(client=client)
    replies: list[Response] = []
    start = threading.Barrier(50)

    def first() -> None:
        start.wait()
        replies.append(asyncio.run(made.run(ask())))

    threads = [threading.Thread(target=first) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 50
    assert aio_threads() == []


def test_what_was_never_asked_leaves_no_unawaited_plan() -> None:
    made = drivers(aio_client=LoopClient())
    asyncio.run(made.run(ask()))
    plan = ask()
    with pytest.raises(ConfigurationError):
        asyncio.run(made.run(plan))
    plan.close()


def _child(made: LoopDrivers, replies: Any) -> None:
    replies.put((len(made._slots), asyncio.run(made.run(ask()))["Item"]["pk"]["S"]))


def test_a_forked_child_begins_anew() -> None:
    """PUB-59: also while the parent's loop has a driver, whose threads the child has not."""
    made = drivers(client=SyncClient())
    context = multiprocessing.get_context("fork")
    replies = context.SimpleQueue()

    async def main() -> None:
        await made.run(ask())
        child = context.Process(target=_in_child_loop, args=(made, replies))
        child.start()
        child.join(30)
        assert child.exitcode == 0
        await made.run(ask())

    asyncio.run(main())
    assert replies.get() == (0, "x")


def _in_child_loop(made: LoopDrivers, replies: Any) -> None:
    asyncio.events._set_running_loop(None)  # a fork inside a running loop copies that it runs
    _child(made, replies)
