"""What botocore's errors mean to us, mapped once.

An *ambiguous* failure may have been applied: the request was sent and the reply did not come. A failure that is
certainly not applied (throttled, no connection) is not ambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import botocore.exceptions as aws

from ..errors import (
    CancellationReason,
    ConditionFailedError,
    ConfigurationError,
    DynadurableError,
    PermissionMissingError,
    RequestRefusedError,
    StoreUnavailableError,
    TableMissingError,
    TransactionFailedError,
)
from ..storage.call import Call

THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingException",
        "ThrottlingError",
        "Throttling",
        "LimitExceededException",
    }
)
CONTENDED = frozenset({"TransactionConflictException", "TransactionConflict", "TransactionInProgressException"})
FORBIDDEN = frozenset({"AccessDeniedException", "AccessDenied", "UnauthorizedOperation"})
BAD_CREDENTIALS = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "ExpiredTokenException",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "InvalidClientTokenId",
        "ExpiredToken",
    }
)
NOT_SENT = (aws.EndpointConnectionError, aws.ConnectTimeoutError, aws.ProxyConnectionError)
_NOT_CONNECTED = frozenset({"ClientConnectorError", "ConnectionTimeoutError", "ClientHttpProxyError"})  # of aiohttp


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What is to be done about a failed request: raise ``error``, after retries where ``transient``."""

    error: DynadurableError
    transient: bool
    maybe_applied: bool


def outcome(call: Call, error: Exception, *, earlier_maybe_applied: bool) -> Outcome:
    """Classify a botocore error. What is not botocore's is a defect and is raised as it is."""
    if isinstance(error, aws.ClientError):
        return _refused(call, error, earlier_maybe_applied)
    if isinstance(error, aws.ParamValidationError):
        return Outcome(error=RequestRefusedError(call.operation, str(error)), transient=False, maybe_applied=False)
    if isinstance(error, (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError)):
        remedy = "set AWS credentials (environment, profile or role), or pass client= or session= to App"
        return Outcome(error=ConfigurationError(f"{error}; {remedy}"), transient=False, maybe_applied=False)
    if isinstance(error, (aws.NoRegionError, aws.InvalidRegionError)):
        return Outcome(
            error=ConfigurationError(f"{str(error).rstrip('.')}; set AWS_DEFAULT_REGION or pass region= to App"),
            transient=False,
            maybe_applied=False,
        )
    if isinstance(error, (aws.HTTPClientError, aws.BotoCoreError)):
        unavailable = StoreUnavailableError(call.operation, str(error))
        return Outcome(error=unavailable, transient=True, maybe_applied=_may_have_been_sent(error))
    raise error


def _may_have_been_sent(error: Exception) -> bool:
    """False only where no connection came about.

    aiobotocore calls a connection that breaks in the middle of a request an ``EndpointConnectionError`` too; the error
    of aiohttp behind it tells the two apart.
    """
    if not isinstance(error, NOT_SENT):
        return True
    behind = getattr(error, "kwargs", {}).get("error")
    if not type(behind).__module__.startswith("aiohttp"):
        return False
    return not any(kind.__name__ in _NOT_CONNECTED for kind in type(behind).__mro__)


def _refused(call: Call, error: aws.ClientError, earlier: bool) -> Outcome:
    reply: Mapping[str, Any] = error.response
    code = reply.get("Error", {}).get("Code", "")
    message = reply.get("Error", {}).get("Message", "")
    metadata = reply.get("ResponseMetadata", {})
    maybe_applied = earlier or metadata.get("RetryAttempts", 0) > 0  # the SDK's own retries hide attempts from us
    if code == "ConditionalCheckFailedException":
        failed = ConditionFailedError(call.operation, item=reply.get("Item"), ambiguous=maybe_applied)
        return Outcome(error=failed, transient=False, maybe_applied=False)
    if code == "TransactionCanceledException":
        return _cancelled(call, reply, maybe_applied)
    if code in THROTTLED or code in CONTENDED:
        return Outcome(
            error=StoreUnavailableError(call.operation, f"{code}: {message}"), transient=True, maybe_applied=False
        )
    if code == "ResourceNotFoundException":
        return Outcome(error=TableMissingError(_missing(call)), transient=False, maybe_applied=False)
    if code in FORBIDDEN:
        remedy = f"allow dynamodb:{call.operation} on table {table_of(call)!r} for this role"
        return Outcome(
            error=PermissionMissingError(f"{message or code}; {remedy}"), transient=False, maybe_applied=False
        )
    if code in BAD_CREDENTIALS:
        remedy = "check the AWS credentials of this process"
        return Outcome(
            error=PermissionMissingError(f"{code}: {message}; {remedy}"), transient=False, maybe_applied=False
        )
    if metadata.get("HTTPStatusCode", 0) >= 500 or code in ("InternalServerError", "ServiceUnavailable"):
        return Outcome(
            error=StoreUnavailableError(call.operation, f"{code}: {message}"), transient=True, maybe_applied=True
        )
    refused = RequestRefusedError(call.operation, f"{code}: {message}")
    return Outcome(error=refused, transient=False, maybe_applied=False)


def _cancelled(call: Call, reply: Mapping[str, Any], maybe_applied: bool) -> Outcome:
    reasons = [
        CancellationReason(
            code=reason.get("Code") or "None", message=reason.get("Message") or "", item=reason.get("Item") or None
        )
        for reason in reply.get("CancellationReasons", ())
    ]
    failed = TransactionFailedError(call.operation, reasons=reasons, ambiguous=maybe_applied)
    passing = {reason.code for reason in reasons} - {"None"}
    transient = bool(passing) and passing <= (THROTTLED | CONTENDED)
    return Outcome(error=failed, transient=transient, maybe_applied=False)


def table_of(call: Call) -> str:
    """The table a request is for, for messages."""
    params = call.params
    if "TableName" in params:
        return str(params["TableName"])
    if "RequestItems" in params:
        return ", ".join(params["RequestItems"])
    elements = params.get("TransactItems", ())
    return ", ".join(sorted({str(body["TableName"]) for element in elements for body in element.values()}))


def _missing(call: Call) -> str:
    return (
        f"table {table_of(call)!r} does not exist in this account and region; create it with app.create_table() "
        "or `dynadurable table create`, or correct the table name"
    )
