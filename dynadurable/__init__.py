"""Durable background work on the one DynamoDB table you already have."""

from .aio import AioApp
from .app import App
from .errors import (
    ConfigurationError,
    DynadurableError,
    Fail,
    Interrupted,
    KeyConflictError,
    LeaseLostError,
    PayloadRefusedError,
    PayloadTooLargeError,
    RunCancelledError,
    RunDeadError,
    RunExpiredError,
    RunNotFinishedError,
    RunUnknownError,
    Snooze,
)
from .fan_out import fan_out, iterable_pages, paginator_pages, query_pages
from .handle import AioRunHandle, RunHandle, TransactItems
from .model.job import AsyncJob, Job
from .model.queue import Queue
from .model.retry import Retry
from .worker.context import JobContext
from .worker.context_aio import AsyncJobContext
from .worker.worker import Worker
from .worker.worker_aio import AioWorker

__all__ = [
    "AioApp",
    "AioRunHandle",
    "AioWorker",
    "App",
    "AsyncJob",
    "AsyncJobContext",
    "ConfigurationError",
    "DynadurableError",
    "Fail",
    "Interrupted",
    "Job",
    "JobContext",
    "KeyConflictError",
    "LeaseLostError",
    "PayloadRefusedError",
    "PayloadTooLargeError",
    "Queue",
    "Retry",
    "RunCancelledError",
    "RunDeadError",
    "RunExpiredError",
    "RunHandle",
    "RunNotFinishedError",
    "RunUnknownError",
    "Snooze",
    "TransactItems",
    "Worker",
    "fan_out",
    "iterable_pages",
    "paginator_pages",
    "query_pages",
]
