"""Durable background work on the one DynamoDB table you already have."""

from .aio import AioApp
from .app import App
from .errors import (
    ConfigurationError,
    DynadurableError,
    EnqueueIncompleteError,
    Fail,
    InputRefusedError,
    Interrupted,
    KeyConflictError,
    LeaseBusyError,
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
from .fan_out import (
    async_iterable_pages,
    async_paginator_pages,
    fan_out,
    fan_out_async,
    iterable_pages,
    paginator_pages,
    query_pages,
)
from .handle import AioRunHandle, RunHandle, TransactItems, TransactModels
from .model.dead_letter import DeadGroup, DeadLetter
from .model.explanation import Explanation
from .model.failure import Failure
from .model.job import AsyncJob, Job, JobCall
from .model.queue import Queue
from .model.queue_info import QueueInfo
from .model.replay import ReplayReport
from .model.retry import Retry
from .model.run_info import RunInfo
from .model.worker_info import WorkerInfo
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
    "DeadGroup",
    "DeadLetter",
    "DynadurableError",
    "EnqueueIncompleteError",
    "Explanation",
    "Fail",
    "Failure",
    "InputRefusedError",
    "Interrupted",
    "Job",
    "JobCall",
    "JobContext",
    "KeyConflictError",
    "LeaseBusyError",
    "LeaseLostError",
    "PayloadRefusedError",
    "PayloadTooLargeError",
    "Queue",
    "QueueInfo",
    "ReplayReport",
    "Retry",
    "RunCancelledError",
    "RunDeadError",
    "RunExpiredError",
    "RunHandle",
    "RunInfo",
    "RunNotFinishedError",
    "RunUnknownError",
    "Snooze",
    "TransactItems",
    "TransactModels",
    "Worker",
    "WorkerInfo",
    "async_iterable_pages",
    "async_paginator_pages",
    "fan_out",
    "fan_out_async",
    "iterable_pages",
    "paginator_pages",
    "query_pages",
]
