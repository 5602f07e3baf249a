# SPDX-License-Identifier: Apache-2.0
"""Plan: operations that are checked and ordered once, and posted many times."""

from __future__ import annotations

import concurrent.futures
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Type

from . import _core
from ._call import Planned

if TYPE_CHECKING:
    from ._core import Future
    from ._types import After, Picks, Spans


class Operations(_core.Operations):
    """A list of operations, of which Engine.plan() makes a Plan. Engine.operations() makes it."""

    __slots__ = ()

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        executor: Optional[concurrent.futures.Executor] = None,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int:
        """Adds a function, or a coroutine function, that each post runs; its index.

        It runs as with Engine.call(), in the event loop of whoever adds it; what it returns is of
        no account. If it raises, the post fails with DependencyError, whose `__cause__` is a
        FailedError with the exception's text. Function and arguments are kept as the plan's memory
        is: until list and plan are gone, or the plan was closed, and its last post is quiet. The
        garbage collector sees no cycle through them: close a plan that its own functions refer to,
        and have none that refers to the list.

        >>> import asyncio, ferry
        >>> async def main():
        ...     async with ferry.Engine() as engine:
        ...         block, target, seen = engine.allocate(4), bytearray(4), []
        ...         operations = engine.operations()
        ...         operations.copy(block, b"step")
        ...         operations.call(lambda: seen.append(bytes(block)), reads=block)
        ...         operations.copy(target, block)
        ...         with engine.plan(operations) as plan:
        ...             await plan.post()
        ...             await plan.post()
        ...         return seen, bytes(target)
        >>> asyncio.run(main())
        ([b'step', b'step'], b'step')
        """
        engine = self.engine
        loop, completions = engine._home()
        target = Planned(engine._calls, loop, function, arguments, executor)
        return self._call(
            completions,
            target,
            reads=reads,
            writes=writes,
            label=label,
            priority=priority,
            untracked=untracked,
        )


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
