"""Time zones by name, and when their offsets change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest

from dynadurable.errors import ConfigurationError, ExtraMissingError
from dynadurable.model import zone
from dynadurable.model.cron import Cron
from dynadurable.model.zone import WINDOW, change_between, first_instant, load_zone, offset_at


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Europe/Berln", "there is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        (" UTC", "did you mean 'UTC'?"),
        ("", "give a name such as 'Europe/Berlin'"),
        ("localtime", "it is whatever this machine is set to"),
        ("America", "there is no time zone 'America'"),
        ("../etc/passwd", "there is no time zone"),
        ("/usr/share/zoneinfo/UTC", "there is no time zone"),
        ("right/UTC", "there is no time zone"),
        ("UTC+1", "there is no time zone"),
        ("\udc80", "there is no time zone"),
        ("Europe/Berlin\x00", "there is no time zone"),
        ("x" * 1_000_000, "there is no time zone"),
    ],
)
def test_an_unknown_zone_is_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Cron("@daily", tz=name)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", [None, 5, UTC, ZoneInfo("Europe/Berlin"), ["UTC"]])
def test_what_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="tz must be the name of a zone"):
        Cron("@daily", tz=name)


def test_a_machine_without_a_zone_database_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone, "_known_zones", frozenset[str])
    with pytest.raises(ExtraMissingError, match=r"tzdata is not installed.*dynadurable\[schedules\]"):
        load_zone("Europe/Berlin")


def test_utc_needs_no_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone, "_known_zones", frozenset[str])
    assert load_zone("UTC") is UTC


def test_a_change_is_found_to_the_second() -> None:
    monrovia = ZoneInfo("Africa/Monrovia")
    day = datetime(1972, 1, 7, tzinfo=UTC)
    assert change_between(monrovia, day, day + timedelta(days=1)) == day + timedelta(minutes=44, seconds=30)


def test_the_first_instant_of_a_repeated_time_is_its_first_showing() -> None:
    assert first_instant(ZoneInfo("Europe/Berlin"), datetime(2027, 10, 31, 2, 30)) == datetime(  # noqa: DTZ001
        2027, 10, 31, 0, 30, tzinfo=UTC
    )


@pytest.mark.slow
def test_no_zone_changes_twice_within_the_window() -> None:
    """The searches rest on it; half the window finds two changes where one look at its ends would find none."""
    step = WINDOW / 2
    for name in sorted(available_timezones() - {"localtime"}):
        info = ZoneInfo(name)
        instants = [datetime(2025, 1, 1, tzinfo=UTC) + n * step for n in range(6 * 366 * 2 // 3)]
        offsets = [offset_at(info, instant) for instant in instants]
        for before, middle, after in zip(offsets, offsets[1:], offsets[2:], strict=False):
            assert (before != middle) + (middle != after) <= 1, name
