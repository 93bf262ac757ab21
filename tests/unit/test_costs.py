"""The cost table: computed, not typed; with a date and a source for every price."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dynadurable import App
from dynadurable.testing.clock import ManualClock
from dynadurable.testing.ledger import ledger
from dynadurable.workflow.context import WorkflowContext
from tests.servers import Store

REPOSITORY = Path(__file__).resolve().parents[2]
COSTS = REPOSITORY / "examples" / "costs"


@pytest.fixture(scope="module")
def costs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("costs_example", COSTS / "costs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_price_has_a_unit_a_source_and_a_date() -> None:
    data = json.loads((COSTS / "prices.json").read_text())
    assert data["region"]
    assert data["known_in"]
    for price in data["prices"].values():
        assert price["usd"] > 0
        assert price["per"]
        assert price["checked"]
        assert price["source"].startswith("https://")


def test_a_million_plain_jobs_cost_three_million_write_units(costs: ModuleType) -> None:
    """3 x 0.625 dollars, and at most a read unit each: 0.125."""
    ours = costs.rows(costs.load_prices())[0]
    assert ours.jobs == pytest.approx(3 * 0.625 + 0.125)


def test_a_million_six_step_workflows_cost_eleven_million_write_units(costs: ModuleType) -> None:
    ours = costs.rows(costs.load_prices())[0]
    assert ours.workflows == pytest.approx(11 * 0.625 + 0.125)


def test_the_write_units_are_those_that_the_library_spends(costs: ModuleType, moto_store: Store) -> None:
    """Counted by item sizes, as in the budget's own tests."""
    app = App(moto_store.table(), client=moto_store.client, clock=ManualClock())

    @app.job
    def job() -> None: ...

    @app.workflow
    def workflow(ctx: WorkflowContext) -> None:
        for number in range(costs.STEPS):
            ctx.step(round, number)

    for work, writes in ((job, costs.JOB_WRITES), (workflow, costs.WORKFLOW_WRITES)):
        with ledger(moto_store.client) as spent:
            app.enqueue(work)
            app.worker(concurrency=1).drain()
        assert spent.write_units == writes


def test_a_report_reads_what_a_worker_reads_for_it(costs: ModuleType, moto_store: Store) -> None:
    app = App(moto_store.table(), client=moto_store.client, clock=ManualClock())
    app.job(name="job")(lambda: None)
    worker = app.worker(metrics=True)
    worker.reporter._write = lambda _line: None
    worker.reporter.report()
    with ledger(moto_store.client) as spent:
        worker.reporter.report()
    assert spent.read_units == costs.READS_A_REPORT


def test_an_idle_month_costs_polls_and_signs_of_life(costs: ModuleType) -> None:
    """730 h: 131,400 looks at 4 shards of half a unit, 43,800 beats."""
    ours = costs.rows(costs.load_prices())[0]
    assert ours.idle == pytest.approx((131_400 * 4 * 0.5 * 0.125 + 43_800 * 0.625) / 1e6)


def test_where_others_are_cheaper_the_table_says_so(costs: ModuleType) -> None:
    lines = costs.table(costs.load_prices()).splitlines()
    sqs = next(line for line in lines if "SQS" in line)
    assert "**$1.20**" in sqs


def test_it_runs_as_a_script_without_anything_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(COSTS / "costs.py")], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("| a month |")


def test_the_table_in_the_readme_is_the_one_that_the_script_prints(costs: ModuleType) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    prices = costs.load_prices()
    assert costs.table(prices) in readme
    assert costs.remarks(prices) in readme
