"""Garbage: items that something else has changed, or put, where ours lie."""

from __future__ import annotations

import random
from typing import Any

Raw = dict[str, Any]

HUGE = ["9" * 38, "-" + "9" * 38, "1E+125", "-1E-130", "0.5", "-1", "0", "18446744073709551616", "99999999999999"]
TEXTS = ["", "#", "~", "é" * 40, "../..", "\x00\x1b[31m", "default~0~zzz~", "!settings", "run", "9" * 400, "page#a#0#1"]
BYTES = [b"", b"1", b"1t{", b"1t" + b"[" * 3_000, b"z\x78\x9c", b'1{"w":[],"r":[[1]]}\n']
PARTITIONS = [
    "queue#default#0",
    "queue#default#3",
    "queue#mail#0",
    "queue##0",
    "queue#default#x",
    "dead#default#0",
    "dead#default#31",
    "run#",
    "run#default~0~0mywy3k00~x",
    "run#kept@",
    "lease#2",
    "lease#x",
    "schedules",
    "workers",
]
SORT_KEYS = [
    "",
    "run",
    "page#",
    "page#x#y#z",
    "!settings",
    "000000000000000#default~0~000~x",
    "001800014400000#",
    "001800014400000#default~0~0mywy3k00~x",
    "999999999999999#x",
    "x",
    "#",
    "nightly",
    "pod-0",
]


class Garbage:
    """Makes it, from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def changed(self, item: Raw) -> Raw:
        """An item of ours in which something is missing, of another type, or beyond all bounds."""
        names = [name for name in item if name not in ("pk", "sk", "dd_v")]
        made = dict(item)
        for name in self.dice.sample(names, min(len(names), self.dice.choice([1, 1, 1, 2, 3]))):
            if self.dice.random() < 0.3:
                del made[name]
            else:
                made[name] = self.value(item[name])
        if self.dice.random() < 0.05:
            made["dd_v"] = self.value(item["dd_v"])
        return made

    def strange(self, names: list[str]) -> Raw:
        """An item that bears our format number, in one of our partitions, with nothing else to be relied on."""
        key = {"pk": {"S": self.dice.choice(PARTITIONS)}, "sk": {"S": self.dice.choice(SORT_KEYS) or "."}}
        chosen = self.dice.sample(names, self.dice.randrange(6))
        return {**{name: self.value() for name in chosen}, "dd_v": {"N": "1"}, **key}

    def value(self, like: Raw | None = None) -> Raw:
        """An attribute; often of the type of another."""
        dice, kinds = self.dice, ["S", "N", "B", "BOOL", "NULL", "L", "M", "SS"]
        kind = next(iter(like)) if like and dice.random() < 0.5 else dice.choice(kinds)
        made: dict[str, Any] = {
            "S": dice.choice(TEXTS),
            "N": dice.choice(HUGE),
            "B": dice.choice([*BYTES, dice.randbytes(40)]),
            "BOOL": dice.random() < 0.5,
            "NULL": True,
            "L": [{"S": "x"}, {"N": "1"}],
            "M": {"a": {"S": "x"}},
            "SS": ["a", "b"],
        }
        return {kind: made.get(kind, "x")}
