"""A queue as the code declares it."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigurationError

DEFAULT_SHARDS = 4
MAX_SHARDS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """A named line of marks, spread over ``shards`` partition keys.

    One partition key takes about 1,000 writes a second, and a plain job needs three; each shard is read at every poll.
    Workers also look beyond the number they know, so it may be changed while work is pending.

    >>> App("shop", queues=[Queue(name="trench", shards=8)])  # doctest: +SKIP
    """

    name: str
    shards: int = DEFAULT_SHARDS

    def __post_init__(self) -> None:
        if isinstance(self.shards, bool) or not isinstance(self.shards, int) or not 1 <= self.shards <= MAX_SHARDS:
            raise ConfigurationError(f"queue {self.name!r}: shards must be 1 to {MAX_SHARDS}, not {self.shards!r}")
