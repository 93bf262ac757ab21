"""A short leg of the real chaos; ``python -m tests.chaos --minutes 15`` goes on for longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynadurable.local import LocalStore
from tests.chaos.round import play

SEED = 7
ROUGH_SECONDS = 10.0
DEEDS = 6


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_every_promise_is_kept_in_rough_weather(servers: Any, tmp_path: Path) -> None:
    """Killed, frozen and stopped workers behind a door that loses, cuts, delays and doubles what goes through it."""
    with LocalStore(servers["ministack"].server) as store:  # its own: a round empties it
        report = play(store, tmp_path, seed=SEED, seconds=ROUGH_SECONDS, deeds=DEEDS)
    assert not report.problems, report.to_text()
    assert report.figures["accepted"] > 0
    assert report.figures["faults"] > 0
    assert sum(report.figures["deeds"].values()) >= DEEDS
