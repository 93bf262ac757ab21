"""AWS CDK constructs that deploy dynadurable: the table, workers, grants, alarms.

Importing this package checks that the CDK library and a Node.js are there, and says what to install if not.
"""

import os

from dynadurable_cdk.prerequisites import check_prerequisites

check_prerequisites(os.environ)

from dynadurable_cdk.alarms import WorkAlarms  # noqa: E402 - only now is it known that these can be imported
from dynadurable_cdk.autoscale import Backlog  # noqa: E402
from dynadurable_cdk.dashboard import WorkDashboard  # noqa: E402
from dynadurable_cdk.drain_function import DrainFunction  # noqa: E402
from dynadurable_cdk.metrics import figure, total  # noqa: E402
from dynadurable_cdk.network import WorkNetwork  # noqa: E402
from dynadurable_cdk.scheduled_worker import ScheduledCleaner, ScheduledWorker  # noqa: E402
from dynadurable_cdk.table import DurableTable, ExistingTable, WorkTable  # noqa: E402
from dynadurable_cdk.task import TaskSettings, image_from  # noqa: E402
from dynadurable_cdk.worker_service import WorkerService  # noqa: E402

__all__ = [
    "Backlog",
    "DrainFunction",
    "DurableTable",
    "ExistingTable",
    "ScheduledCleaner",
    "ScheduledWorker",
    "TaskSettings",
    "WorkAlarms",
    "WorkDashboard",
    "WorkNetwork",
    "WorkTable",
    "WorkerService",
    "figure",
    "image_from",
    "total",
]
