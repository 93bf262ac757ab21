"""What the store says no with: DynamoDB's own code, before it becomes an error of ours or botocore's."""

from __future__ import annotations

from collections.abc import Sequence

from dynadurable.errors import CancellationReason
from dynadurable.testing.memory.value import Item

VALIDATION = "ValidationException"
CONDITION_FAILED = "ConditionalCheckFailedException"
TRANSACTION_CANCELED = "TransactionCanceledException"
TABLE_MISSING = "ResourceNotFoundException"
TABLE_EXISTS = "ResourceInUseException"
TOKEN_REUSED = "IdempotentParameterMismatchException"  # noqa: S105 - an error code


class RefusalError(Exception):
    """A refused request; ``code`` as DynamoDB spells it.

    ``item`` goes with a failed condition, ``reasons`` with a cancelled transaction.
    """

    def __init__(
        self, code: str, message: str, *, item: Item | None = None, reasons: Sequence[CancellationReason] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.item = item
        self.reasons = tuple(reasons)


class KeyMismatchError(RefusalError):
    """A key attribute is missing or of the wrong type: a transaction reports it as the element's own reason."""

    def __init__(self, message: str) -> None:
        super().__init__(VALIDATION, message)


def invalid(message: str) -> RefusalError:
    """The refusal of a request that breaks a rule."""
    return RefusalError(VALIDATION, message)
