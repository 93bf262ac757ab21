"""The file by which a health check tells a worker that hangs."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from dynadurable.worker.heartbeat import Heartbeat

LONG_AGO = 1_000_000_000


def test_a_beat_makes_the_file_young(tmp_path: Path) -> None:
    file = tmp_path / "heartbeat"
    heartbeat = Heartbeat.from_environment({"DYNADURABLE_HEARTBEAT_FILE": str(file)})
    heartbeat.beat()
    os.utime(file, (LONG_AGO, LONG_AGO))
    heartbeat.beat()
    assert file.stat().st_mtime > LONG_AGO


@pytest.mark.parametrize("environ", [{}, {"DYNADURABLE_HEARTBEAT_FILE": ""}])
def test_nothing_is_written_where_nobody_asked(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Heartbeat.from_environment(environ).beat()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_reported_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeat = Heartbeat(tmp_path / "no-such-folder" / "heartbeat")
    with caplog.at_level(logging.WARNING, "dynadurable.worker"):
        heartbeat.beat()
        heartbeat.beat()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
