"""The command line: ``dynadurable``. One file for each command or group of commands."""

from .entry import main

__all__ = ["main"]
