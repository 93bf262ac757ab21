"""Steps plans with boto3's low-level client."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..clock import Clock
from ..ledger.meter import Meter
from ..storage.call import Call, Plan, Response, Several, Work
from .retries import Tries

Result = TypeVar("Result")


class Boto3Driver:
    """Runs plans on a boto3 client, one request after the other, in the calling thread.

    ``client`` gives the client of this process (clients are thread-safe, but must not cross a fork). ``meter`` is told
    of every request.
    """

    def __init__(self, client: Callable[[], Any], clock: Clock, meter: Meter | None = None) -> None:
        self._client = client
        self._clock = clock
        self.meter = meter or Meter()

    def run(self, plan: Plan[Result], *, give_up_at: float | None = None) -> Result:
        """The plan's result. ``give_up_at`` (monotonic seconds) bounds the retries of each of its requests.

        Raises:
            whatever the plan raises; errors of the store as ``StoreError`` or ``ConfigurationError``.
        """
        try:
            step = plan.send(None)
            while True:
                try:
                    reply = self._do(step, give_up_at)
                except BaseException as error:  # noqa: BLE001 - the plan decides, also about SystemExit
                    step = plan.throw(error)
                else:
                    step = plan.send(reply)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        finally:
            plan.close()

    def _do(self, step: Call | Work, give_up_at: float | None) -> Any:
        if isinstance(step, Call):
            return self.send(step, give_up_at=give_up_at)
        return self._side_by_side(step, give_up_at) if isinstance(step, Several) else step.perform()

    def _side_by_side(self, several: Several, give_up_at: float | None) -> list[Any]:
        try:
            with ThreadPoolExecutor(max_workers=several.limit, thread_name_prefix="dynadurable-several") as pool:
                return list(pool.map(lambda plan: self._settled(plan, give_up_at), several.plans))
        finally:
            several.close()

    def _settled(self, plan: Plan[Any], give_up_at: float | None) -> Any:
        try:
            return self.run(plan, give_up_at=give_up_at)
        except Exception as error:  # noqa: BLE001 - handed to the plan that asked, which decides
            return error

    def send(self, call: Call, *, give_up_at: float | None = None) -> Response:
        """One request with its retries."""
        tries = Tries(call=call, give_up_at=give_up_at)
        while True:
            try:
                reply = self.send_once(tries.call)
            except Exception as error:  # noqa: BLE001 - what is not botocore's is raised again
                delay: float | None = tries.delay_after(error, now=self._clock.monotonic())
            else:
                delay = tries.leftovers(reply, now=self._clock.monotonic())
                if delay is None:
                    return reply
            self._clock.sleep(delay or 0.0)

    def send_once(self, call: Call) -> Response:
        """One try of one request. Raises botocore's errors."""
        method = getattr(self._client(), method_name(call.operation))
        metered = self.meter.begin(call)
        sent = self._clock.monotonic()
        try:
            reply: Response = method(**(call.params if metered is None else metered.params))
        except BaseException as error:
            if metered is not None:
                metered.failed(error)
            raise
        if metered is not None:
            metered.answered(reply)
        headers = reply.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        self._clock.observe(sent=sent, received=self._clock.monotonic(), date=headers.get("date"))
        return reply


def method_name(operation: str) -> str:
    """Botocore's spelling.

    >>> method_name("TransactWriteItems")
    'transact_write_items'
    """
    name = _NAMES.get(operation)
    if name is None:
        name = _NAMES[operation] = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()
    return name


_NAMES: dict[str, str] = {}
