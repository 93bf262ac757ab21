"""Fixtures for the whole suite: the stores that tests run on. See ``tests/servers.py`` for what each can do."""

from __future__ import annotations
