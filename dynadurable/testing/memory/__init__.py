"""An in-memory DynamoDB for simulations and fast tests, held equal to real servers by the conformance suite."""

from dynadurable.testing.memory.catalog import Snapshot
from dynadurable.testing.memory.client import MemoryClient
from dynadurable.testing.memory.store import MemoryStore

__all__ = ["MemoryClient", "MemoryStore", "Snapshot"]
