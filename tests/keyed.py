"""An app whose every run has a key of its own, so that what is tested on plain jobs can be tested on run items too."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import Any

from dynadurable import App, Job
from dynadurable.model.job import Options
from dynadurable.operations import Operations
from dynadurable.storage.births import Birth, Newborn

_numbers = itertools.count()


class KeyedApp(App):
    """``App``, but a call without a key gets one that nobody else has, in whatever way it is enqueued."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.operations.born = _keyed(self.operations)  # type: ignore[method-assign]


def _keyed(operations: Operations) -> Any:
    born = operations.born

    def with_key(job: Job[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Birth, Newborn]:
        return born(keyed(job) if isinstance(job, Job) else job, args, kwargs)

    return with_key


def keyed(job: Job[Any, Any]) -> Job[Any, Any]:
    """The job with a key of its own; forks count on from the same number, so the process is a part of it."""
    options: Options = job.options
    key = f"key {next(_numbers)} of {os.getpid()}"
    return job if options.key is not None else replace(job, options=replace(options, key=key))
