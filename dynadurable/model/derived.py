"""Values that replace clocks and dice in a workflow: derived from names, so that they are the same on every replay."""

from __future__ import annotations

import hashlib
import random
import uuid


def seed(*parts: object) -> bytes:
    """32 bytes that only these parts give. Parts are texts and whole numbers."""
    digest = hashlib.sha256()
    for part in parts:
        data = f"{type(part).__name__}:{part}".encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def uuid_of(*parts: object) -> uuid.UUID:
    """A version 4 UUID.

    >>> uuid_of("run-1", 1) == uuid_of("run-1", 1) != uuid_of("run-1", 2)
    True
    """
    return uuid.UUID(bytes=seed("uuid", *parts)[:16], version=4)


def dice_of(*parts: object) -> random.Random:
    """A generator of its own.

    >>> dice_of("run-1").random() == dice_of("run-1").random()
    True
    """
    return random.Random(seed("random", *parts))
