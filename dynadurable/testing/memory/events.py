"""As much of botocore's events as a ledger needs: handlers that are told of each request and of its answer."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

BEFORE = "before-parameter-build"
ANSWERED = "response-received"


class Events:
    """Handlers by the event that they are for. Thread-safe: a change replaces them all."""

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[str, Callable[..., Any]]] = {}

    def register(self, event_name: str, handler: Callable[..., Any], unique_id: str) -> None:
        """As botocore's. Of the names only the first part counts, and only the two above ever happen."""
        self._handlers = {**self._handlers, unique_id: (event_name.partition(".")[0], handler)}

    register_last = register

    def unregister(self, event_name: str, handler: Callable[..., Any], unique_id: str) -> None:  # noqa: ARG002
        """As botocore's."""
        self._handlers = {name: kept for name, kept in self._handlers.items() if name != unique_id}

    def asked(self, operation: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """A request comes; gives the context for its answer, ``None`` where nobody listens."""
        if not any(event == BEFORE for event, _ in self._handlers.values()):
            return None
        context: dict[str, Any] = {}
        self._tell(BEFORE, params=params, model=SimpleNamespace(name=operation), context=context)
        return context

    def answered(self, context: dict[str, Any] | None, reply: Any) -> None:
        """The answer to a request, or the error that it was refused with."""
        if context is not None:
            self._tell(ANSWERED, context=context, parsed_response=reply)

    def _tell(self, event: str, **told: Any) -> None:
        for listened, handler in self._handlers.values():
            if listened == event:
                handler(**told)
