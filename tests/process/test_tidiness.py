"""Nothing is left behind: no session, task, loop, thread or warning, as Python's own development mode sees it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.process.workshop import LIMIT_SECONDS, REPOSITORY, Workshop

pytestmark = pytest.mark.server


@pytest.mark.parametrize("transport", ["threads", pytest.param("aioboto3", marks=pytest.mark.aio)])
def test_a_program_that_uses_event_loops_ends_without_a_word(workshop: Workshop, transport: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.process.tidy"]
    ended = subprocess.run(
        command,
        env=workshop.environment(),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
