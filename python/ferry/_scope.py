# SPDX-License-Identifier: Apache-2.0
"""Scope: operations of one purpose."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Optional, Type

from . import _core
from ._core import Future
from ._stats import Stats

if TYPE_CHECKING:
    from ._engine import Engine


class Scope(_core.Scope):
    """Operations that end, or are limited, together; they join by their option `scope`.

    When `async with` is left, no operation of the scope touches memory any more: it waits for them
    all, and cancels them first if it is left by an exception. It raises no failure of theirs: each
    future has its own.

    >>> import asyncio, ferry
    >>> async def main():
    ...     async with ferry.Engine() as engine:
    ...         never = engine.promise()
    ...         target = bytearray(4)
    ...         try:
    ...             async with engine.scope() as scope:
    ...                 copied = engine.copy(target, b"abcd", scope=scope, after=never.future)
    ...                 raise KeyError("the request was taken back")
    ...         except KeyError:
    ...             return copied.status
    >>> asyncio.run(main())
    'FERRY_E_CANCELLED'
    """

    def __new__(
        cls,
        engine: "Engine",
        *,
        timeout: Optional[float] = None,
        bytes_per_second: int = 0,
        burst_bytes: int = 0,
    ) -> "Scope":
        made: Scope = super().__new__(
            cls,
            engine,
            timeout=timeout,
            bytes_per_second=bytes_per_second,
            burst_bytes=burst_bytes,
        )
        return made

    def stats(self) -> Stats:
        """What its operations have done, in an Engine(stats=1)."""
        return Stats(*self._stats())

    async def __aenter__(self) -> "Scope":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await _finish(self.cancel() if kind else self.close())


async def _finish(ended: "Future[None]") -> None:
    """Waits until it has ended, also if the task is cancelled, which cancels the scope."""
    cancelled: Optional[asyncio.CancelledError] = None
    while not ended.done():
        try:
            await ended
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    await ended
