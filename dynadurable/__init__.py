"""Durable background work on the one DynamoDB table you already have."""

from .aio import AioApp
from .app import App
from .errors import (
    BranchesFailedError,
    CallbackFailedError,
    ChildFailedError,
    CommitRefusedError,
    ConfigurationError,
    DynadurableError,
    EnqueueIncompleteError,
    Fail,
    InputRefusedError,
    Interrupted,
    KeyConflictError,
    LeaseBusyError,
    LeaseLostError,
    NonDeterminismError,
    NotReplayableError,
    PayloadRefusedError,
    PayloadTooLargeError,
    RunCancelledError,
    RunDeadError,
    RunExpiredError,
    RunNotFinishedError,
    RunUnknownError,
    ScheduleExistsError,
    ScheduleUnknownError,
    Snooze,
    StepFailedError,
    StepInterruptedError,
    StepTimeoutError,
    StoreUnavailableError,
    WaitTimeoutError,
    WorkflowError,
)
from .fan_out import (
    AsyncPageSource,
    FanOutReport,
    PageSource,
    RecipientPage,
    async_iterable_pages,
    async_paginator_pages,
    fan_out,
    fan_out_async,
    iterable_pages,
    paginator_pages,
    query_pages,
)
from .handle import AioRunHandle, RunHandle, TransactItems, TransactModels
from .leader import Leader, Term
from .leader_aio import AioLeader, AioTerm
from .lease import FenceCondition, Lease
from .lease_aio import AioLease
from .model.completion import Completion
from .model.dead_letter import DeadGroup, DeadLetter
from .model.explanation import Explanation
from .model.failure import Failure
from .model.job import AsyncJob, Job, JobCall
from .model.lease_info import LeaseInfo
from .model.queue import Queue
from .model.queue_info import QueueInfo
from .model.replay import ReplayReport
from .model.results import Outcome, Results
from .model.retry import Retry
from .model.run_info import RunInfo
from .model.schedule_info import ScheduleInfo
from .model.worker_info import WorkerInfo
from .worker.context import JobContext
from .worker.context_aio import AsyncJobContext
from .worker.worker import Worker
from .worker.worker_aio import AioWorker
from .workflow.context import WorkflowContext
from .workflow.context_aio import AsyncWorkflowContext
from .workflow.waits import NotYet

__all__ = [
    "AioApp",
    "AioLeader",
    "AioLease",
    "AioRunHandle",
    "AioTerm",
    "AioWorker",
    "App",
    "AsyncJob",
    "AsyncJobContext",
    "AsyncPageSource",
    "AsyncWorkflowContext",
    "BranchesFailedError",
    "CallbackFailedError",
    "ChildFailedError",
    "CommitRefusedError",
    "Completion",
    "ConfigurationError",
    "DeadGroup",
    "DeadLetter",
    "DynadurableError",
    "EnqueueIncompleteError",
    "Explanation",
    "Fail",
    "Failure",
    "FanOutReport",
    "FenceCondition",
    "InputRefusedError",
    "Interrupted",
    "Job",
    "JobCall",
    "JobContext",
    "KeyConflictError",
    "Leader",
    "Lease",
    "LeaseBusyError",
    "LeaseInfo",
    "LeaseLostError",
    "NonDeterminismError",
    "NotReplayableError",
    "NotYet",
    "Outcome",
    "PageSource",
    "PayloadRefusedError",
    "PayloadTooLargeError",
    "Queue",
    "QueueInfo",
    "RecipientPage",
    "ReplayReport",
    "Results",
    "Retry",
    "RunCancelledError",
    "RunDeadError",
    "RunExpiredError",
    "RunHandle",
    "RunInfo",
    "RunNotFinishedError",
    "RunUnknownError",
    "ScheduleExistsError",
    "ScheduleInfo",
    "ScheduleUnknownError",
    "Snooze",
    "StepFailedError",
    "StepInterruptedError",
    "StepTimeoutError",
    "StoreUnavailableError",
    "Term",
    "TransactItems",
    "TransactModels",
    "WaitTimeoutError",
    "Worker",
    "WorkerInfo",
    "WorkflowContext",
    "WorkflowError",
    "async_iterable_pages",
    "async_paginator_pages",
    "fan_out",
    "fan_out_async",
    "iterable_pages",
    "paginator_pages",
    "query_pages",
]
