"""What a month costs, here and elsewhere: request units from dynadurable's write budget, times list prices.

    python examples/costs/costs.py     prints the table of the README

Prices stand in ``prices.json``, with their sources. They are list prices without free tiers, and change: check them
before you rely on them. Left out is what is the same everywhere: the machine that runs your code, logs, traffic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MILLION = 1_000_000
RUNS = 1 * MILLION
STEPS = 6
HOURS_A_MONTH = 730
SECONDS_A_MONTH = HOURS_A_MONTH * 3600

# Write units, from the budget that the tests assert: a plain job is enqueued, claimed, finished; a workflow of n small
# steps takes n + 5, and one more for each eight steps, when a page of its journal is sealed.
JOB_WRITES = 3
WORKFLOW_WRITES = STEPS + 5 + STEPS // 8
# At most one read unit for finding a run: a page of marks, read consistently, shared by all runs on it.
READS_A_RUN = 1

# An idle worker looks at the four shards of its queue every 20 s, half a read unit each, and writes its sign of life
# once a minute.
SHARDS = 4
POLL_SECONDS = 20
READS_A_POLL = 0.5
BEAT_SECONDS = 60

# SQS: send, receive, delete; one message each, as in a queue of single jobs. An idle consumer waits 20 s for each.
SQS_REQUESTS_A_MESSAGE = 3
# Lambda durable functions: the start and each step are an operation; a kilobyte is written for each and kept 14 days.
KILOBYTE_IN_GB = 1 / 1_048_576
KEPT_MONTHS = 14 / 30
RDS_STORAGE_GB = 20

TASK_VCPU = 0.25
TASK_GB = 0.5
METRICS_A_QUEUE = 4
ALARMS_A_QUEUE = 5
# Two workers of a queue report its figures once a minute: half a unit for the marks and for the dead letters of each
# shard, and half a unit for the list of workers.
REPORTERS = 2
READS_A_REPORT = SHARDS * (0.5 + 0.5) + 0.5


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to run the work: dollars for a million jobs, for a million workflows, and for a month of nothing."""

    name: str
    jobs: float
    workflows: float
    idle: float
    remark: str


PRICES = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))


def load_prices() -> Mapping[str, float]:
    """Dollars by name."""
    return {name: price["usd"] for name, price in PRICES["prices"].items()}


def rows(prices: Mapping[str, float]) -> list[Row]:
    """Every way, dynadurable first."""
    return [
        _dynadurable(prices),
        _sqs(prices),
        _step_functions(prices),
        _lambda(prices),
        _temporal(prices),
        _rds(prices),
    ]


def _dynadurable(prices: Mapping[str, float]) -> Row:
    def dollars(writes: float, reads: float) -> float:
        return (writes * prices["dynamodb_write"] + reads * prices["dynamodb_read"]) / MILLION

    idle_reads = SECONDS_A_MONTH / POLL_SECONDS * SHARDS * READS_A_POLL
    return Row(
        name="dynadurable",
        jobs=dollars(RUNS * JOB_WRITES, RUNS * READS_A_RUN),
        workflows=dollars(RUNS * WORKFLOW_WRITES, RUNS * READS_A_RUN),
        idle=dollars(SECONDS_A_MONTH / BEAT_SECONDS, idle_reads),
        remark=f"{JOB_WRITES} and {WORKFLOW_WRITES} write units a run; idle: one worker, one queue",
    )


def _sqs(prices: Mapping[str, float]) -> Row:
    message = SQS_REQUESTS_A_MESSAGE * prices["sqs_request"] * RUNS / MILLION
    return Row(
        name="SQS, standard queue",
        jobs=message,
        workflows=message * STEPS,
        idle=SECONDS_A_MONTH / POLL_SECONDS * prices["sqs_request"] / MILLION,
        remark="single messages; ten in a batch cost a tenth. Six steps: six queues in a row, and no state is kept",
    )


def _step_functions(prices: Mapping[str, float]) -> Row:
    transition = prices["step_functions_transition"] * RUNS / MILLION
    return Row(
        name="Step Functions, standard",
        jobs=transition,
        workflows=transition * STEPS,
        idle=0.0,
        remark="one state a step, none for choices, waits and retries",
    )


def _lambda(prices: Mapping[str, float]) -> Row:
    def dollars(operations: int) -> float:
        gigabytes = RUNS * operations * KILOBYTE_IN_GB
        data = gigabytes * (prices["lambda_durable_written"] + prices["lambda_durable_retained"] * KEPT_MONTHS)
        return data + (operations * prices["lambda_durable_operation"] + prices["lambda_request"]) * RUNS / MILLION

    return Row(
        name="Lambda durable functions",
        jobs=dollars(2),
        workflows=dollars(1 + STEPS),
        idle=0.0,
        remark="the start and each step are an operation, 1 KB each",
    )


def _temporal(prices: Mapping[str, float]) -> Row:
    def dollars(actions: int) -> float:
        return actions * RUNS / MILLION * prices["temporal_action"] * (1 + prices["temporal_plan_share"])

    return Row(
        name="Temporal Cloud, Developer plan",
        jobs=dollars(2),
        workflows=dollars(1 + STEPS),
        idle=0.0,
        remark="the start and each activity are an action; storage left out",
    )


def _rds(prices: Mapping[str, float]) -> Row:
    month = HOURS_A_MONTH * prices["rds_hour"] + RDS_STORAGE_GB * prices["rds_storage"]
    return Row(
        name="the smallest RDS and a library on PostgreSQL",
        jobs=month,
        workflows=month,
        idle=month,
        remark=f"db.t4g.micro in one zone, {RDS_STORAGE_GB} GB; a second zone doubles it",
    )


def table(prices: Mapping[str, float]) -> str:
    """The rows in Markdown; bold is what is cheaper than dynadurable."""
    ours, *others = rows(prices)
    lines = [
        f"| a month | 1 M jobs | 1 M workflows of {STEPS} steps | nothing happens | |",
        "|---|---:|---:|---:|---|",
        f"| {ours.name} | {dollars(ours.jobs)} | {dollars(ours.workflows)} | {dollars(ours.idle)} | {ours.remark} |",
    ]
    for row in others:
        cells = [
            f"**{dollars(theirs)}**" if theirs < mine else dollars(theirs)
            for theirs, mine in ((row.jobs, ours.jobs), (row.workflows, ours.workflows), (row.idle, ours.idle))
        ]
        lines.append(f"| {row.name} | {' | '.join(cells)} | {row.remark} |")
    return "\n".join(lines)


def remarks(prices: Mapping[str, float]) -> str:
    """Where the table ends: from when on others are cheaper, and what the ready stacks cost whatever they do."""
    ours, rds = rows(prices)[0], _rds(prices)
    break_even = rds.jobs / ours.jobs
    task = HOURS_A_MONTH * (TASK_VCPU * prices["fargate_vcpu_hour"] + TASK_GB * prices["fargate_gb_hour"])
    address = HOURS_A_MONTH * prices["public_address_hour"]
    reports = SECONDS_A_MONTH / BEAT_SECONDS * REPORTERS * READS_A_REPORT * prices["dynamodb_read"] / MILLION
    watching = METRICS_A_QUEUE * prices["cloudwatch_metric"] + ALARMS_A_QUEUE * prices["cloudwatch_alarm"] + reports
    return (
        f"List prices as known in {PRICES['known_in']}, {PRICES['region']}, no free tiers; bold is cheaper than "
        f"dynadurable. From about {break_even:.0f} M plain jobs a month on the smallest RDS is cheaper, as long as it "
        "keeps up. Left out is what is the same everywhere: the machine that runs your code, logs, traffic. The "
        f"smallest worker task (0.25 vCPU, 0.5 GB, Graviton) costs {dollars(task)} a month and its public address "
        f"{dollars(address)} if it runs all the time; metrics, the reads for them and alarms cost "
        f"{dollars(watching)} for a queue, the dashboard {dollars(prices['cloudwatch_dashboard'])}."
    )


def dollars(amount: float) -> str:
    """Two decimals; a whole number from 100 on.

    >>> dollars(1.875), dollars(350.0)
    ('$1.88', '$350')
    """
    return f"${amount:,.0f}" if amount >= 100 else f"${amount + 1e-9:,.2f}"


def main() -> None:
    prices = load_prices()
    print(table(prices))
    print()
    print(remarks(prices))


if __name__ == "__main__":
    main()
