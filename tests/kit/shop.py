"""The code under test of the tests of the kit."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from dynadurable import App, AsyncJobContext, AsyncWorkflowContext, JobContext, Retry, WorkflowContext

app = App("shop")
outbox: list[str] = []
DAY = timedelta(days=1)


@app.job(keep_result=DAY, retry=Retry(max_attempts=3, delay=timedelta(minutes=1), jitter=0.0))
def send(ctx: JobContext, to: str, *, fails: int = 0) -> str:
    if ctx.attempt <= fails:
        raise ConnectionError("the mail server is away")
    outbox.append(to)
    return f"sent to {to}"


@app.job(keep_result=DAY)
async def send_async(ctx: AsyncJobContext, to: str) -> str:
    await asyncio.sleep(0)
    await ctx.checkpoint(1)
    outbox.append(to)
    return f"sent to {to}"


def charge(amount: int) -> str:
    outbox.append(f"charge {amount}")
    return f"charged {amount}"


async def charge_async(amount: int) -> str:
    await asyncio.sleep(0)
    return charge(amount)


def declined() -> None:
    raise ConnectionError("the bank is away")


def refund(charged: str) -> None:
    outbox.append(f"refund of {charged}")


@app.workflow(keep_result=DAY)
def order(ctx: WorkflowContext, amount: int) -> str:
    paid = ctx.step(charge, amount, name="charge")
    ctx.sleep(timedelta(days=3))
    ctx.map(charge, [1, 2], name="pack")
    return ctx.step(str.upper, paid, name="notify")


@app.workflow(keep_result=DAY)
async def order_async(ctx: AsyncWorkflowContext, amount: int) -> str:
    paid = await ctx.step(charge_async, amount, name="charge")
    await ctx.sleep(timedelta(days=3))
    return await ctx.step(str.upper, paid, name="notify")


@app.workflow(keep_result=DAY)
def impatient(ctx: WorkflowContext) -> str:
    answer: str = ctx.wait_event("approved", timeout=timedelta(hours=48), default="nobody")
    return answer


@app.workflow(keep_result=DAY)
def brief(ctx: WorkflowContext, amount: int) -> list[str]:
    paid = ctx.step(charge, amount, name="charge")
    ctx.sleep(timedelta(hours=3))
    return [paid, *ctx.map(charge, [1, 2], name="pack")]


@app.workflow(keep_result=DAY)
async def brief_async(ctx: AsyncWorkflowContext, amount: int) -> str:
    paid = await ctx.step(charge_async, amount, name="charge")
    await ctx.sleep(timedelta(hours=3))
    return await ctx.step(str.upper, paid, name="notify")


@app.workflow
def echo(ctx: WorkflowContext, text: str) -> str:
    return text


@app.workflow
def undone(ctx: WorkflowContext) -> None:
    ctx.step(charge, 5, name="charge", compensate=refund)
    ctx.step(declined, retry=Retry(max_attempts=2, delay=timedelta(hours=1), jitter=0.0))


@app.schedule("0 6 * * *")
@app.job
def report() -> None:
    outbox.append("report")
