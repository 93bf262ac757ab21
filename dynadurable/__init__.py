"""Durable background work on the one DynamoDB table you already have."""

from .app import App, TransactItems
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
from .handle import RunHandle
from .model.job import Job
from .model.queue import Queue
from .model.retry import Retry
from .worker.context import JobContext
from .worker.worker import Worker

__all__ = [
    "App",
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
