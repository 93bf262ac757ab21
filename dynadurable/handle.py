"""A run in the caller's hands: which one it is, and what can be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from .app import App

Returned = TypeVar("Returned")


class RunHandle(Generic[Returned]):
    """What ``app.enqueue`` and ``app.run`` give. ``id`` is the run's id, for another process to ask by."""

    def __init__(self, app: App, run_id: str) -> None:
        self._app = app
        self.id = run_id

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class AioRunHandle(Generic[Returned]):
    """What ``app.aio.enqueue`` and ``app.aio.run`` give: a ``RunHandle`` for event loops."""

    def __init__(self, app: App, run_id: str) -> None:
        self._app = app
        self.id = run_id

    def __repr__(self) -> str:
        return f"AioRunHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AioRunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class TransactItems(list[dict[str, Any]]):
    """Elements for ``transact_write_items``, and the id of the run that they are."""

    def __init__(self, run_id: str, elements: list[dict[str, Any]]) -> None:
        super().__init__(elements)
        self.run_id = run_id
