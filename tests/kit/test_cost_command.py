"""``dynadurable cost``: every figure of the budget, measured, in memory and on a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dynadurable.cli.root import root
from dynadurable.testing import scenarios
from dynadurable.testing.budget import Stage
from tests.servers import Store

README = Path(__file__).resolve().parents[2] / "README.md"


def run(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(root, ["cost", *arguments], **more)


def test_every_row_of_the_budget_is_measured_and_holds() -> None:
    done = run("--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["holds"]
    measured = {(row["scenario"], row["unit"]): row["measured"] for row in told["rows"]}
    assert [row for row in told["rows"] if not row["holds"]] == []
    for scenario, units in {
        "plain job: enqueue, claim, finish": 3,
        "the same, begun in the process that enqueues it": 2,
        "job with a key": 5,
        "job with a kept result": 5,
        "a duplicate of a live run": 1,
        "a duplicate, in the worst race": 4,
        "workflow of 6 small steps": 11,
        "first failure of a plain job": 6,
        "each later retry": 3,
        "plain job, taken over after a crash": 4,
        "cron slot": 8,
    }.items():
        assert measured[scenario, "write units"] == units
    assert measured["idle worker: a shard and poll", "read units"] == 0.5
    assert measured["all of these: Scans", "requests"] == 0


def test_a_person_sees_a_table() -> None:
    done = run()
    assert done.exit_code == 0
    assert "plain job: enqueue, claim, finish" in done.stdout
    assert "All 25 figures are as they should be." in done.stdout
    assert done.stderr == ""


def test_a_figure_that_differs_is_named_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def dear(stage: Stage) -> None:
        stage.app.enqueue(scenarios._work(stage.app))
        with stage.spending() as spent:
            stage.drain()
        stage.row("a job that is dearer than it may be", 1, spent.write_units)

    monkeypatch.setattr(scenarios, "SCENARIOS", (dear,))
    done = run()
    assert done.exit_code == 1
    assert "DIFFERS" in done.stdout
    assert "1 of 4 figures differ." in done.stdout


@pytest.mark.server
def test_on_a_table_that_is_there_everything_is_deleted_again(
    ministack: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, kept = ministack.table(), {"pk": {"S": "mine"}, "sk": {"S": "1"}}
    ministack.client.put_item(TableName=table, Item=kept)
    name_credentials(ministack, monkeypatch)
    quick = [one for one in scenarios.SCENARIOS if one is not scenarios.idle_worker]  # which is hundreds of polls
    monkeypatch.setattr(scenarios, "SCENARIOS", quick)
    done = run("--json", "--yes", "--table", table, "--endpoint-url", ministack.endpoint_url)
    assert done.exit_code == 0, done.output
    assert ministack.client.scan(TableName=table)["Items"] == [kept]


@pytest.mark.server
def test_a_table_that_is_not_there_comes_and_goes(ministack: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    name_credentials(ministack, monkeypatch)
    monkeypatch.setattr(scenarios, "SCENARIOS", scenarios.SCENARIOS[:1])
    done = run("--yes", "--table", "cost-only", "--endpoint-url", ministack.endpoint_url)
    assert done.exit_code == 0, done.output
    assert "cost-only" not in ministack.client.list_tables()["TableNames"]


def test_nothing_is_written_without_a_yes() -> None:
    done = run("--table", "shop", "--endpoint-url", "http://127.0.0.1:1", input="n\n")
    assert done.exit_code == 1
    assert "Nothing was done." in done.stderr


def test_an_endpoint_without_a_table_is_wrong_usage() -> None:
    done = run("--endpoint-url", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "Which table?" in done.stderr


def name_credentials(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aws_access_key_id", "aws_secret_access_key"):
        monkeypatch.setenv(name.upper(), store.client_kwargs[name])
    monkeypatch.setenv("AWS_DEFAULT_REGION", store.client_kwargs["region_name"])
