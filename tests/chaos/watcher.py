"""Reads the table's own stream: every write in its order, whoever made it and whatever it was told. Each is checked."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from typing import Any

import boto3

from dynadurable.storage.keys import parse_mark_sort_key
from tests import laws
from tests.chaos.jobs import GUARDED
from tests.chaos.log import Log

LOOK_SECONDS = 0.25
EXPIRED, FREE = "past an expired lease", "of a mark that nobody held"
Raw = dict[str, Any]


class Problems:
    """What was found wrong, each with the run that it is about, if it is about one."""

    def __init__(self) -> None:
        self.found: list[tuple[str | None, str]] = []

    def add(self, run_id: str | None, why: str) -> None:
        self.found.append((run_id, why))


class Watcher:
    """Learns from every write, and holds it against the laws."""

    def __init__(self, client_kwargs: dict[str, Any], stream_arn: str, log: Log, problems: Problems) -> None:
        self.problems = problems
        self.writes = 0
        self.claims: dict[str, dict[int, str]] = defaultdict(dict)
        """By run, the claims by their fences, and what each was a claim of."""
        self.births: Counter[str] = Counter()
        """How often a self-contained mark of that run was put where none was."""
        self.lives: dict[str, set[str]] = defaultdict(set)
        """The generations that each run item has had."""
        self._ends: Counter[tuple[str, str]] = Counter()
        self._log = log
        self._client = boto3.session.Session().client("dynamodbstreams", **client_kwargs)
        self._iterator = self._begin(stream_arn)
        self._over = threading.Event()
        self._offset = time.monotonic() - time.time()
        self._thread = threading.Thread(target=self._look_on, name="chaos-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """See what is left, and end."""
        self._over.set()
        self._thread.join()
        while self._look():
            pass
        self._client.close()

    def _begin(self, stream_arn: str) -> str:
        (shard,) = self._client.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
        reply = self._client.get_shard_iterator(
            StreamArn=stream_arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        return str(reply["ShardIterator"])

    def _look_on(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            while self._look():
                pass

    def _look(self) -> int:
        reply = self._client.get_records(ShardIterator=self._iterator, Limit=1000)
        self._iterator = reply["NextShardIterator"]
        for record in reply["Records"]:
            change = record["dynamodb"]
            at_ms = int(change["SequenceNumber"][:20])  # this store's sequence numbers begin with its time
            self._on_write(change["Keys"], change.get("OldImage"), change.get("NewImage"), at_ms)
        return len(reply["Records"])

    def _on_write(self, keys: Raw, old: Raw | None, new: Raw | None, at_ms: int) -> None:
        self.writes += 1
        pk, sk = keys["pk"]["S"], keys["sk"]["S"]
        if not pk.startswith(("feed@", "followers")):
            at = at_ms / 1000 + self._offset
            self._log.note("write", wrote_at=at, key=f"{pk} {sk}", was=_brief(old, new), now=_brief(new, old))
        if pk.startswith("queue#"):
            self._on_mark(sk, old, new, at_ms)
        elif pk.startswith("run#") and sk == "run":
            self._on_run(pk[4:], old, new)
        elif pk == GUARDED:
            self._on_guarded(old, new)

    def _on_mark(self, sk: str, old: Raw | None, new: Raw | None, at_ms: int) -> None:
        key = parse_mark_sort_key(sk)
        if key is None:
            return
        for why in laws.wrong_with_mark(old, new):
            self.problems.add(key.run_id, f"mark {sk}: {why}")
        if old is None and new is not None and "dd_gen" not in new:
            self.births[key.run_id] += 1
        if new is not None and laws.is_claim(old, new):
            early_ms = laws.milliseconds_too_early(old, now_ms=at_ms)
            if early_ms:
                self.problems.add(key.run_id, f"{sk} was taken over {early_ms} ms before its lease ended")
            kind = EXPIRED if laws.number(old or {}, "dd_lease") else FREE
            self.claims[key.run_id][laws.number(new, "dd_fence")] = kind

    def _on_run(self, run_id: str, old: Raw | None, new: Raw | None) -> None:
        for why in laws.wrong_with_run(old, new):
            self.problems.add(run_id, why)
        if new is None:
            return
        self.lives[run_id].add(new["dd_gen"]["S"])
        if laws.ends_a_life(old, new):
            self._ends[run_id, new["dd_gen"]["S"]] += 1
            if self._ends[run_id, new["dd_gen"]["S"]] > 1:
                self.problems.add(run_id, "one life ended twice")

    def _on_guarded(self, old: Raw | None, new: Raw | None) -> None:
        """Fences in the order of the writes that landed; under one fence only one writer."""
        if old is None or new is None:
            return
        before, after = laws.number(old, "fence"), laws.number(new, "fence")
        if after < before:
            self.problems.add(None, f"a guarded write of fence {after} landed after one of fence {before}")
        if after == before and laws.text(old, "writer") != laws.text(new, "writer"):
            self.problems.add(None, f"two holders wrote under fence {after}: {old['writer']}, {new['writer']}")


def _brief(item: Raw | None, other: Raw | None) -> Raw | None:
    """What is different from the other, without long values."""
    if item is None:
        return None
    return {name: next(iter(value.values())) for name, value in item.items() if _differs(name, value, other)}


def _differs(name: str, value: Raw, other: Raw | None) -> bool:
    return name not in ("pk", "sk") and "B" not in value and (other is None or other.get(name) != value)
