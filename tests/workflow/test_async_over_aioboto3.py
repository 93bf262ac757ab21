"""``async def`` workflows again, over aioboto3 and a real server. What is right stands where the tests are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.stepping import TABLE, Fault, FaultyClient, Meter
from tests.servers import Store
from tests.workflow.rig import Define, Rig
from tests.workflow.test_async import (
    test_a_cancelled_trip_is_undone,
    test_a_step_is_tried_again_without_holding_a_worker,
    test_a_step_that_cancels_itself_has_failed,
    test_a_trip_is_undone,
    test_an_async_step_may_be_too_slow,
    test_errors_are_the_same_as_in_plain_workflows,
    test_everything_works_on_an_event_loop,
    test_it_ends_as_if_nothing_had_happened,
    test_steps_that_run_side_by_side_are_never_mispaired,
    test_the_first_of_two_events_stays_the_first,
    test_the_order_of_completion_is_the_recorded_one,
)
from tests.workflow.test_async_replay import (
    test_code_that_does_not_fit_its_journal,
    test_lines_are_logged_once,
    test_what_is_not_replayed_is_refused,
)

__all__ = [
    "test_a_cancelled_trip_is_undone",
    "test_a_step_is_tried_again_without_holding_a_worker",
    "test_a_step_that_cancels_itself_has_failed",
    "test_a_trip_is_undone",
    "test_an_async_step_may_be_too_slow",
    "test_code_that_does_not_fit_its_journal",
    "test_errors_are_the_same_as_in_plain_workflows",
    "test_everything_works_on_an_event_loop",
    "test_it_ends_as_if_nothing_had_happened",
    "test_lines_are_logged_once",
    "test_steps_that_run_side_by_side_are_never_mispaired",
    "test_the_first_of_two_events_stays_the_first",
    "test_the_order_of_completion_is_the_recorded_one",
    "test_what_is_not_replayed_is_refused",
]

pytestmark = [pytest.mark.aio, pytest.mark.server]


class FaultyAioClient:
    """``FaultyClient`` for event loops."""

    def __init__(self, client: Any, meter: Meter) -> None:
        self._inner = client
        self._meter = meter
        self.meta = client.meta

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        async def sent(**params: Any) -> Any:
            with self._meter.lock:
                fault = self._meter.met(name)
            if fault is None:
                return await method(**params)
            if fault.applied:
                await method(**params)
            return self._meter.fail(fault)

        return sent


class FaultySession:
    """A session of aioboto3 that notes how many clients were asked for."""

    def __init__(self, rig: ServerRig, meter: Meter) -> None:
        self._rig = rig
        self._meter = meter

    def client(self, service: str, **settings: Any) -> AbstractAsyncContextManager[Any]:
        return self._client(service, {**settings, **self._rig.server.client_kwargs})

    @asynccontextmanager
    async def _client(self, service: str, settings: dict[str, Any]) -> AsyncIterator[Any]:
        import aioboto3

        async with aioboto3.Session().client(service, **settings) as client:
            self._rig.aio_clients += 1
            yield FaultyAioClient(client, self._meter)


@dataclass(kw_only=True)
class ServerRig(Rig):
    """A rig whose table lies on a server; its event loops reach it through aioboto3."""

    server: Store
    aio_clients: int = 0

    def connect(self, fault: Fault | None) -> tuple[FaultyClient, dict[str, Any]]:
        meter = Meter(fault)
        return FaultyClient(self.server.client, meter), {"aio_session": FaultySession(self, meter)}

    def items(self) -> list[dict[str, Any]]:
        pages = self.server.client.get_paginator("scan").paginate(TableName=TABLE)
        return [item for page in pages for item in page["Items"]]

    def close(self) -> None:
        super().close()
        if TABLE in self.server.client.list_tables()["TableNames"]:
            self.server.client.delete_table(TableName=TABLE)


@pytest.fixture
def make_rig(ministack: Store) -> Iterator[Callable[[Define], Rig]]:
    made: list[ServerRig] = []

    def make(define: Define) -> Rig:
        made.append(ServerRig(define=define, server=ministack))
        return made[-1]

    yield make
    for rig in made:
        rig.close()
        assert rig.aio_clients, "its workflows ran over something else"


@pytest.fixture
def one_in() -> int:
    return 25
