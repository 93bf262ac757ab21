"""Crash everywhere: the same scenario, with a crash at every write that it makes."""

from dynadurable.testing.crash.points import crash_points
from dynadurable.testing.crash.report import CrashReport

__all__ = ["CrashReport", "crash_points"]
