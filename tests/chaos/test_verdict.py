"""The checkers of the chaos notice what they are there for: each is shown one history that breaks a promise."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from dynadurable import App
from dynadurable.testing.memory import MemoryClient, MemoryStore
from tests.chaos.book import Book, Promise
from tests.chaos.jobs import Site, define
from tests.chaos.verdict import Verdict, history
from tests.chaos.watcher import EXPIRED, FREE, Problems, Watcher

RUN = "chaos~0~0mx27mcv2~01m8mb6acy0yv1spp7r6fm"
UNTIL = "2027-01-15T12:00:10+00:00"
TICKS = [
    {"event": "tick", "at": 0.0, "run": f"tick {second}", "slot": f"2027-01-15T12:00:{second:02d}+00:00"}
    for second in (4, 6, 8, 10)
]
Line = dict[str, Any]


def line(event: str, at: float, fence: int = 1, **facts: Any) -> Line:
    return {"event": event, "at": at, "run": RUN, "fence": fence, **facts}


def run_item(state: str = "succeeded", **more: Any) -> Line:
    ttl = {} if state == "live" else {"ttl": {"N": "1800100000"}}
    head = {"pk": {"S": f"run#{RUN}"}, "sk": {"S": "run"}, "dd_v": {"N": "1"}, "dd_gen": {"S": "g1"}}
    return {**head, "dd_state": {"S": state}, **ttl, **more}


class Bystander(Watcher):
    """A watcher that is told what it has seen."""

    def __init__(self) -> None:
        self.problems, self.births, self.lives = Problems(), Counter[str](), defaultdict(set)
        self.claims, self.writes = defaultdict(dict), 0
        self._ends, self._offset = Counter(), 0.0

    def sees(self, key: tuple[str, str], old: Line | None, new: Line | None, at_ms: int = 1_000) -> list[str]:
        if key[0].startswith("queue#"):
            self._on_mark(key[1], old, new, at_ms)
        elif key[0].startswith("run#"):
            self._on_run(key[0][4:], old, new)
        else:
            self._on_guarded(old, new)
        return [why for _, why in self.problems.found]


def judge(
    folder: Path,
    promises: list[Promise],
    *,
    lines: list[Line] | None = None,
    items: list[Line] | None = None,
    watcher: Bystander | None = None,
) -> str:
    """What is found wrong."""
    site = Site(table="chaos", endpoint="", folder=str(folder), until=UNTIL)
    app = App("chaos", client=MemoryClient(MemoryStore()))
    define(app, site)
    book, seen = Book(), watcher or Bystander()
    for promise in promises:
        book.add(promise)
    Verdict(app, site, items or [], [*TICKS, *(lines or [])], seen, seen.problems).examine(book)
    return "\n".join(f"{run_id}: {why}" for run_id, why in seen.problems.found)


PLAIN = [Promise(kind="plain", number=1, run_id=RUN)]
DONE = [line("start", 1.0), line("end", 2.0)]


def test_a_good_end_is_good(tmp_path: Path) -> None:
    assert judge(tmp_path, PLAIN, lines=DONE) == ""


@pytest.mark.parametrize(
    ("lines", "items", "found"),
    [
        ([], [], "lost: a plain that is gone"),
        ([line("start", 1.0)], [run_item("succeeded")], "its body never came to its end"),
        (DONE, [run_item("dead")], "a plain must be gone or succeeded, but is dead"),
        (DONE, [run_item("dead")], "is dead, and has no letter"),
        (DONE, [run_item("cancelled")], "cancelled, though nobody asked for it"),
        (DONE, [run_item("live")], "live, and without a mark"),
        (DONE, [{"pk": {"S": "queue#chaos#0"}, "sk": {"S": f"001#{RUN}"}}], "a mark was left"),
        (DONE, [{"pk": {"S": "dead#chaos#0"}, "sk": {"S": f"1#{RUN}"}, "dd_gen": {"S": "g"}}], "which is not dead"),
        (DONE, [{**run_item("live"), "ttl": {"N": "1800100000"}}], "a live run with an expiry"),
        ([*DONE, line("start", 3.0)], [], "2 bodies began under fence 1"),
    ],
)
def test_a_broken_promise_is_found(tmp_path: Path, lines: list[Line], items: list[Line], found: str) -> None:
    assert found in judge(tmp_path, PLAIN, lines=lines, items=items)


def test_an_overlap_is_explained_by_an_expired_lease_only(tmp_path: Path) -> None:
    overlap = [line("start", 1.0), line("start", 2.0, fence=2), line("end", 3.0), line("end", 4.0, fence=2)]
    for kind, found in ((EXPIRED, ""), (FREE, "overlap without a lost lease")):
        watcher = Bystander()
        watcher.claims[RUN] = {1: FREE, 2: kind}
        assert found in (told := judge(tmp_path, PLAIN, lines=overlap, watcher=watcher))
        assert bool(told) == bool(found)


def test_a_checkpoint_that_was_lost_is_found(tmp_path: Path) -> None:
    promises = [Promise(kind="counting", number=1, run_id=RUN)]
    lines = [
        line("start", 1.0, cursor=None),
        line("step", 2.0, step=1),
        line("start", 3.0, fence=2, cursor=None),
        line("end", 4.0, fence=2),
    ]
    assert "began at None, though 1 was recorded" in judge(tmp_path, promises, lines=lines)


def test_a_key_that_lives_too_often_is_found(tmp_path: Path) -> None:
    watcher = Bystander()
    watcher.lives[RUN] = {"g1", "g2"}
    promises = [Promise(kind="plain", number=1, run_id=RUN, key="k", unique=True)]
    told = judge(tmp_path, promises, lines=DONE, watcher=watcher)
    assert "a key that stays taken had 2 lives" in told
    assert "asked for 1 times, lived 2 times" in told


def test_a_transaction_that_was_done_by_half_is_found(tmp_path: Path) -> None:
    promises = [Promise(kind="transacted", number=1, run_id=RUN)]
    assert "a transaction that was not done" in judge(tmp_path, promises, lines=DONE)
    receipt = {"pk": {"S": "receipt@1"}, "sk": {"S": "receipt"}, "run": {"S": RUN}}
    assert judge(tmp_path, promises, lines=DONE, items=[receipt]) == ""
    assert "lost" in judge(tmp_path, [Promise(kind="transacted", number=1)], items=[receipt])


def test_a_told_cancellation_that_did_not_happen_is_found(tmp_path: Path) -> None:
    promises = [Promise(kind="plain", number=1, run_id=RUN, cancels=["cancelled"])]
    assert "an operator was told that it is cancelled, but it is gone" in judge(tmp_path, promises, lines=DONE)


def test_a_slot_that_was_left_out_or_ran_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.test_verdict.TICKS", [TICKS[0], TICKS[2], {**TICKS[2], "run": "another"}])
    told = judge(tmp_path, [])
    assert "had the runs" in told
    assert "slots were left out" in told
    assert "though the schedule ends at" in told


MARK = ("queue#chaos#0", f"001800014400000#{RUN}")
HELD = {"dd_job": {"S": "j"}, "dd_token": {"S": "a"}, "dd_fence": {"N": "2"}, "dd_lease": {"N": "2000"}}
TAKEN = {**HELD, "dd_token": {"S": "b"}, "dd_fence": {"N": "3"}, "dd_lease": {"N": "9000"}}


@pytest.mark.parametrize(
    ("key", "old", "new", "found"),
    [
        (MARK, HELD, TAKEN, "taken over 1000 ms before its lease ended"),
        (MARK, HELD, {**HELD, "dd_fence": {"N": "1"}}, "lowered its fence"),
        (MARK, None, {"dd_vouched": {"N": "1"}}, "planted a ghost"),
        (("run#a", "run"), run_item(), run_item("live", dd_gen={"S": "g1"}), "changed the end"),
        (("run#a", "run"), run_item("live"), run_item("live", dd_gen={"S": "g2"}), "wrote over a live run"),
        (("guarded", "guarded"), {"fence": {"N": "3"}}, {"fence": {"N": "2"}}, "landed after one of fence 3"),
        (
            ("guarded", "guarded"),
            {"fence": {"N": "3"}, "writer": {"S": "a"}},
            {"fence": {"N": "3"}, "writer": {"S": "b"}},
            "two holders wrote under fence 3",
        ),
    ],
)
def test_a_write_that_breaks_a_law_is_found(key: tuple[str, str], old: Any, new: Any, found: str) -> None:
    assert any(found in why for why in Bystander().sees(key, old, new))


def test_a_take_over_after_the_lease_is_noted_as_one() -> None:
    watcher = Bystander()
    assert watcher.sees(MARK, HELD, TAKEN, at_ms=2_001) == []
    assert watcher.claims[RUN] == {3: EXPIRED}


def test_a_life_that_ends_twice_is_found() -> None:
    watcher = Bystander()
    watcher.sees(("run#a", "run"), run_item("live"), run_item())
    assert "one life ended twice" in watcher.sees(("run#a", "run"), run_item("live"), run_item())


def test_a_history_tells_all_of_one_run_in_order() -> None:
    lines = [
        line("start", 2.0),
        {"event": "fault", "at": 1.0, "kind": "reply lost", "keys": [f"queue#chaos#0 001#{RUN}"]},
        {"event": "write", "at": 9.0, "wrote_at": 1.5, "key": f"queue#chaos#0 001#{RUN}", "was": None, "now": {}},
        {"event": "deed", "at": 3.0, "deed": "kill", "whom": 7},
        {"event": "start", "at": 2.5, "run": "another"},
    ]
    assert [told.split()[1] for told in history(RUN, lines)] == ["fault", "write", "start", "deed"]
