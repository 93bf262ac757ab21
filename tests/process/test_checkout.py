"""The checkout demo as its users run it: a worker killed at every boundary, and a payment service that counts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.server, pytest.mark.chaos, pytest.mark.slow]

BOUNDARIES = 6
SECONDS = 110


def test_killed_at_every_boundary_it_charges_once_and_the_honest_case_needs_the_key() -> None:
    """And without the key it charges twice: the body of a step is called at least once, and says so."""
    command = [sys.executable, "-m", "dynadurable", "demo", "workflow", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    boundaries, with_key, without_key = json.loads(done.stdout)
    assert len(boundaries["killed"]) == BOUNDARIES
    assert (boundaries["charges"], with_key["charges"], without_key["charges"]) == (1, 1, 2)
    for played in (boundaries, with_key, without_key):
        assert played["result"]["parcels"] == ["parcel with hat", "parcel with coat"]
        assert played["result"]["approval"] == "by the boss"
        assert {one["state"] for one in played["timeline"]} == {"done"}
    assert len({one["worker"] for one in boundaries["timeline"]}) > 3, "different workers did different parts"
