# SPDX-License-Identifier: Apache-2.0
"""Plan: operations that are checked and ordered once, and posted many times."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Optional, Type

from . import _core

if TYPE_CHECKING:
    from ._core import Future
    from ._types import After, Picks, Spans


class PlanInfo(NamedTuple):
    """What a plan came to."""

    #: Operations that were listed.
    op_count: int
    #: What a post of all moves and does, after neighbours were joined.
    part_count: int
    #: How often one of these waits for another.
    wait_count: int
    #: Spans that a post of all waits for and holds.
    access_count: int
    #: Bytes that a post of all moves.
    size_bytes: int
    #: What a post of all begins at one command to a GPU; 0: each part begins by itself.
    graph_count: int


class Plan(_core.Plan):
    """Operations that are checked and ordered once, and posted many times. Engine.plan() makes it.

    >>> import asyncio, ferry
    >>> async def main():
    ...     async with ferry.Engine() as engine:
    ...         pages, cache = bytearray(b"page0page1page2page3"), bytearray(10)
    ...         operations = engine.operations()
    ...         operations.copy_blocks(cache, pages, [0, 5], [15, 5], 5)
    ...         with engine.plan(operations) as plan:
    ...             await plan.post()
    ...             first = bytes(cache)
    ...             pages[5:10] = pages[15:20] = b"fresh"
    ...             await plan.post(picks=[1])
    ...             return first, bytes(cache)
    >>> asyncio.run(main())
    (b'page3page1', b'page3fresh')

    The memory is held until the plan is closed, or its object is gone, and its last post is quiet.
    A window whose object is nowhere else is closed with the plan's, and then posts under way fail.
    """

    if TYPE_CHECKING:

        def post(
            self,
            *,
            picks: Optional[Picks] = None,
            after: After = (),
            reads: Spans = (),
            writes: Spans = (),
            timeout: Optional[float] = None,
            deadline_ns: int = 0,
            label: Optional[str] = None,
            priority: int = 0,
            user_data: int = 0,
            scope: Optional[_core.Scope] = None,
            untracked: bool = False,
        ) -> "Future[None]":
            """Submits all operations, or those with these indices, as one."""

    def describe(self) -> PlanInfo:
        """How large it is."""
        return PlanInfo(*self._describe())

    def __repr__(self) -> str:
        what = "closed" if self.closed else f"{self.describe().op_count} operations"
        return f"<ferry.Plan, {what}>"

    def __enter__(self) -> "Plan":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
