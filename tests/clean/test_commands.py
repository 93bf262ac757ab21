"""``dynadurable clean``, ``table check`` and ``doctor`` at the shell."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dynadurable.cleaner import CLEANER_LEASE
from dynadurable.cli.root import root
from dynadurable.model.finding import LEVELS
from tests.clean.site import Site


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """Its app is ``shop_of_commands:app``. An ended run has expired."""
    made = Site()

    @made.app.job(keep_result=timedelta(days=7))
    def kept() -> None: ...

    made.app.enqueue(kept)
    made.work()
    made.advance(days=8)
    module = ModuleType("shop_of_commands")
    module.__spec__ = ModuleSpec("shop_of_commands", None)
    module.app = made.app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop_of_commands", module)
    return made


def call(*arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "--app", "shop_of_commands"])


def called(*arguments: str) -> dict[str, Any]:
    result = call(*arguments, "--json")
    told: dict[str, Any] = json.loads(result.output)
    return told


def test_clean_says_what_it_costs_and_what_it_did(site: Site) -> None:
    result = call("clean")
    assert result.exit_code == 0
    first, *rest = result.output.splitlines()
    assert "A pass reads the whole table: 1 items" in first
    assert any("Removed 1 runs" in line for line in rest)
    assert site.rows() == []


def test_a_dry_clean_changes_nothing(site: Site) -> None:
    before = site.store.items("shop")
    told = called("clean", "--dry-run")
    assert (told["removed"], told["dry_run"], told["write_units"]) == ({"runs": 1}, True, 0)
    assert "Would remove 1 runs" in call("clean", "--dry-run").output
    assert site.store.items("shop") == before


def test_clean_tells_machines_everything(site: Site) -> None:
    told = called("clean", "--rate", "10", "--read-rate", "5")
    assert told["removed_total"] == 1
    assert told["finished"]
    assert not told["busy"]
    assert told["estimate"]["read_units"] == 1


REPORTED = {
    "scanned": int,
    "ours": int,
    "newer": int,
    "damaged": int,
    "removed": dict,
    "removed_total": int,
    "stamped": int,
    "restored": int,
    "left": int,
    "read_units": float,
    "write_units": float,
    "seconds": float,
    "finished": bool,
    "resumed": bool,
    "dry_run": bool,
}
ESTIMATED = {"items": int, "size_bytes": int, "read_units": int, "seconds": float, "resumes": bool}


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["", "dry run"])
def test_what_machines_are_told_keeps_its_shape(site: Site, options: tuple[str, ...]) -> None:
    """Whoever reads this elsewhere relies on names and types: they are only added to."""
    told = called("clean", *options)
    assert told.pop("busy") is False
    estimate = told.pop("estimate")
    for shape, part in ((REPORTED, told), (ESTIMATED, estimate)):
        assert part.keys() == shape.keys()
        assert [name for name, kind in shape.items() if not isinstance(part[name], kind | int)] == []
    examined = called("doctor")
    assert examined.keys() == {"healthy", "worst", "findings"}
    checked = called("table", "check")
    assert checked.keys() == {"table", "fits", "healthy", "worst", "findings"}
    for finding in (*examined["findings"], *checked["findings"]):
        assert finding.keys() == {"check", "level", "text", "remedy", "repaired"}
        assert finding["level"] in LEVELS


def test_a_second_cleaner_does_nothing_and_is_no_failure(site: Site) -> None:
    """A cron job that comes while the last one is still at work need wake nobody."""
    with site.app.lease(CLEANER_LEASE, ttl=timedelta(minutes=1)):
        assert called("clean") == {"busy": True}
        result = call("clean")
    assert (result.exit_code, len(site.rows())) == (0, 1)
    assert "Another cleaner" in result.output


@pytest.mark.parametrize("rate", ["0", "-1", "fast"])
def test_a_rate_that_cannot_be_kept_is_wrong_usage(site: Site, rate: str) -> None:
    assert call("clean", "--rate", rate).exit_code == 2


def test_table_check_says_what_fits_and_what_it_costs(site: Site) -> None:
    result = call("table", "check")
    assert result.exit_code == 0
    for text in ("Table shop fits", "string keys", "time to live", "on demand", "A pass reads the whole table"):
        assert text in result.output
    told = called("table", "check")
    assert (told["table"], told["fits"], told["worst"]) == ("shop", True, "note")


def test_doctor_exits_with_one_if_there_is_a_problem(site: Site) -> None:
    assert call("doctor").exit_code == 0
    site.client.delete_table(TableName="shop")
    result = call("doctor")
    assert result.exit_code == 1
    assert "does not exist" in result.output
    told = called("doctor")
    assert not told["healthy"]


def test_doctor_repairs(site: Site) -> None:
    [run] = site.rows("run")
    mark = {
        "pk": {"S": "queue#default#0"},
        "sk": run["dd_mark"],
        "dd_v": {"N": "1"},
        "dd_job": {"S": "kept"},
        "dd_gen": run["dd_gen"],
        "dd_at": {"N": "1800014400000"},
        "dd_fence": {"N": "0"},
        "dd_attempt": {"N": "0"},
    }
    site.client.put_item(TableName="shop", Item=mark)
    assert called("doctor")["worst"] == "warning"
    assert len(site.rows("queue")) == 1
    told = called("doctor", "--repair", "--queue", "default")
    assert [one["repaired"] for one in told["findings"] if one["check"] == "marks"] == [True]
    assert site.rows("queue") == []
