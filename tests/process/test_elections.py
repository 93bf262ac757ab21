"""Real processes contend for a lease and for leadership while they are stopped, continued and killed.

``DYNADURABLE_CONTEST_SECONDS`` says for how long they contend for the lease; 60 was run by hand, 10 is the default.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

from tests.process.workshop import Workshop, wait_until

pytestmark = pytest.mark.server

CONTEST_SECONDS = float(os.environ.get("DYNADURABLE_CONTEST_SECONDS", "10"))
TTL_SECONDS = 1.5
LOOK_SECONDS = 1.0
SLACK_SECONDS = 4.0  # for slow machines: a request, a thread that is late


@pytest.fixture
def elections(workshop: Workshop) -> Workshop:
    workshop.module = "tests.process.elector"
    return workshop


@pytest.mark.slow
@pytest.mark.timeout(CONTEST_SECONDS + 110)
def test_two_processes_contend_while_one_is_stopped_past_its_lease(
    elections: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fences grow, and a guarded write is never overwritten by an older fence."""
    contenders = [elections.start(role="contend", ttl=TTL_SECONDS) for _ in range(2)]
    by_pid = {process.pid: process for process in contenders}
    wait_until(lambda: elections.events("wrote"), "the first write")
    end = time.monotonic() + CONTEST_SECONDS
    take_overs: list[float] = []
    while time.monotonic() < end:
        holder = elections.events("wrote")[-1]
        before, stopped_at = holder["fence"], time.monotonic()
        os.kill(holder["pid"], signal.SIGSTOP)
        newer = wait_until(lambda: _newer(elections, before, holder["pid"]), "the take-over")  # noqa: B023
        take_overs.append(newer["at"] - stopped_at)
        os.kill(holder["pid"], signal.SIGCONT)
        time.sleep(0.5)  # the one that woke up writes what it was about to write
    assert [elections.stop(by_pid[process.pid]) for process in contenders] == [0, 0]
    with capsys.disabled():
        told = ", ".join(f"{seconds:.2f}" for seconds in take_overs)
        sys.stdout.write(f"\ntake-overs after SIGSTOP, ttl {TTL_SECONDS} s: {told} s\n")
    assert elections.events("refused"), "whoever woke up late was refused"
    assert max(take_overs) < TTL_SECONDS + LOOK_SECONDS + SLACK_SECONDS
    check(elections)


def _newer(elections: Workshop, fence: int, pid: int) -> dict[str, Any] | None:
    found = [event for event in elections.events("acquired") if event["fence"] > fence and event["pid"] != pid]
    return found[-1] if found else None


def check(elections: Workshop) -> None:
    """From the table's own history of what landed, in order."""
    acquired = [event["fence"] for event in elections.events("acquired")]
    assert len(acquired) == len(set(acquired)), "a fence was given twice"
    for pid in {event["pid"] for event in elections.events("acquired")}:
        own = [event["fence"] for event in elections.events("acquired") if event["pid"] == pid]
        assert own == sorted(own)
    (item,) = [item for item in elections.items() if item["pk"]["S"] == "timeline"]
    landed = [tuple(map(int, entry["S"].split())) for entry in item["history"]["L"]]
    fences = [fence for fence, _ in landed]
    assert fences == sorted(fences), "a write of an older fence landed after one of a newer fence"
    owners: dict[int, set[int]] = {}
    for fence, pid in landed:
        owners.setdefault(fence, set()).add(pid)
    assert all(len(pids) == 1 for pids in owners.values()), f"two holders wrote under one fence: {owners}"


@pytest.mark.slow
def test_take_over_is_bounded_after_a_kill_and_at_once_after_a_stop(
    elections: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    ttl = 2.0
    times: dict[str, float] = {}
    first = elections.start(role="lead", ttl=ttl)
    wait_until(lambda: elections.events("leads"), "the first leader")
    second = elections.start(role="lead", ttl=ttl)
    time.sleep(1.5)  # it stands by
    elections.kill(first)
    at = time.monotonic()
    times["kill"] = wait_until(lambda: _term(elections, 2), "the second leader")["at"] - at
    third = elections.start(role="lead", ttl=ttl)
    time.sleep(1.5)
    at = time.monotonic()
    assert elections.stop(second) == 0
    times["stop"] = wait_until(lambda: _term(elections, 3), "the third leader")["at"] - at
    assert elections.stop(third) == 0
    with capsys.disabled():
        told = f"after a kill {times['kill']:.2f} s, after a stop {times['stop']:.2f} s"
        sys.stdout.write(f"\ntake-over, ttl {ttl} s: {told}\n")
    assert times["kill"] < ttl + LOOK_SECONDS + SLACK_SECONDS
    assert times["stop"] < LOOK_SECONDS + SLACK_SECONDS
    assert [event["fence"] for event in elections.events("leads no more")] == [2, 3]


def _term(elections: Workshop, fence: int) -> dict[str, Any] | None:
    return next((event for event in elections.events("leads") if event["fence"] == fence), None)
