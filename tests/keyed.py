"""An app whose every run has a key of its own, so that what is tested on plain jobs can be tested on run items too."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from dynadurable import App, Job, RunHandle
from dynadurable.model.job import Options

_numbers = itertools.count()


class KeyedApp(App):
    """``App``, but a call without a key gets one that nobody else has."""

    def enqueue(  # type: ignore[override]  # which job it is makes no difference here
        self, job: Job[Any, Any], *args: Any, **kwargs: Any
    ) -> RunHandle[Any]:
        return super().enqueue(keyed(job), *args, **kwargs)


def keyed(job: Job[Any, Any]) -> Job[Any, Any]:
    options: Options = job.options
    return job if options.key is not None else replace(job, options=replace(options, key=f"key {next(_numbers)}"))
