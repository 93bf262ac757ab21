"""Who follows whom, with the shape that real followings have: a few krabs have very many followers, most have none.

Made by the scale-free model of Bollobás, Borgs, Chayes and Riordan, "Directed scale-free graphs" (2003), as networkx
implements it: who has many followers already is the more likely to be followed by the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import networkx as nx

from .models import Following, Item, Krab

KRABS_PER_FOLLOWER = 3.2
"""About how large a graph is in which the most popular krab has one follower."""
STAR = "ferris"


@dataclass(frozen=True, kw_only=True)
class Graph:
    """``krabs`` in the order in which they came, and the followers of each who has any."""

    krabs: list[str]
    followers: dict[str, list[str]]

    @property
    def followings(self) -> int:
        return sum(map(len, self.followers.values()))

    def items(self) -> Iterator[Item]:
        """As they lie in the table."""
        yield from map(Krab.named, self.krabs)
        for krab, followers in self.followers.items():
            for follower in followers:
                yield Following.of(krab, follower=follower)


def with_star(least_followers: int) -> Graph:
    """A graph in which the most popular krab, ``STAR``, has at least so many followers. The same one every time."""
    krabs = round(least_followers * KRABS_PER_FOLLOWER)
    for seed in count(1):
        followers = _followers(krabs, seed)
        star = max(followers, key=lambda krab: len(followers[krab]))
        if len(followers[star]) >= least_followers:
            return _named(krabs, star, followers)
    raise AssertionError("unreachable: every so many graphs one has such a krab")


def _followers(krabs: int, seed: int) -> dict[int, set[int]]:
    followers: dict[int, set[int]] = defaultdict(set)
    for follower, krab, _ in nx.scale_free_graph(krabs, seed=seed).edges:
        if follower != krab:
            followers[krab].add(follower)
    return followers


def _named(krabs: int, star: int, followers: dict[int, set[int]]) -> Graph:
    names = {number: f"krab-{number:0{len(str(krabs))}d}" for number in range(krabs)}
    names[star] = STAR
    return Graph(
        krabs=list(names.values()),
        followers={names[krab]: sorted(map(names.__getitem__, them)) for krab, them in followers.items()},
    )
