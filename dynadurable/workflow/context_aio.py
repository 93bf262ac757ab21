"""What the code of an ``async def`` workflow is given."""

from __future__ import annotations

from .context_base import WorkflowContextBase


class AsyncWorkflowContext(WorkflowContextBase):
    """Given to an ``async def`` workflow as its first argument."""
