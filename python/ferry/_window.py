# SPDX-License-Identifier: Apache-2.0
"""Window: memory of a member that the others read and write by offsets."""

from __future__ import annotations

import asyncio
import enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generator, NamedTuple, Optional, Type

from . import _core

if TYPE_CHECKING:
    from ._core import Future
    from ._types import After, Memory, Offsets, Spans


class WindowState(enum.Enum):
    """The state of a window, as this member knows it."""

    PENDING = 0
    OPEN = 1
    CLOSED = 2


class WindowInfo(NamedTuple):
    """A window, as this member knows it."""

    state: WindowState
    #: "get", "put" or "both"; "" before a sought window is found.
    rights: str
    owner: int
    #: 0 before a sought window is found.
    size_bytes: int
    name: str


class Window(_core.Window):
    """Memory that its owner has announced to a group.

    Group.open_window() and Group.find_window() make it. Await it, and it is open, or was found; or
    use it in `async with`, which also closes it. Of an own window that is left when no other member
    touches the memory any more. A window is closed too when its object is gone.

    >>> import asyncio, ferry
    >>> async def owner(cache):
    ...     async with ferry.Engine() as engine:
    ...         async with engine.join(store="mem:window", job="one", size=2, rank=0) as group:
    ...             async with group.open_window(cache, "pages", rights="both"):
    ...                 return (await group.next_notice()).data
    >>> async def other():
    ...     async with ferry.Engine() as engine:
    ...         async with engine.join(store="mem:window", job="one", size=2, rank=1) as group:
    ...             async with group.find_window(0, "pages") as window:
    ...                 page = bytearray(4)
    ...                 await window.get(8, page)
    ...                 put = window.put(0, b"seen")
    ...                 await group.send_notice(0, page, after=put)
    >>> async def main():
    ...     cache = bytearray(b"page0000page0001")
    ...     told, _ = await asyncio.gather(owner(cache), other())
    ...     return told, cache
    >>> asyncio.run(main())
    (b'page', bytearray(b'seen0000page0001'))

    An operation may name a window that is still sought, if it waits for it: `after=window.ready`.
    Operations on it take no part in the order of the owner's operations on that memory: programs
    tell each other, for example by notices, when bytes are there and may be overwritten.
    """

    if TYPE_CHECKING:

        def get(
            self,
            offset: int,
            span: Memory,
            /,
            *,
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
            """Copies the owner's bytes, from an offset on, into a local span."""

        def put(
            self,
            offset: int,
            span: Memory,
            /,
            *,
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
            """Copies a local span into the owner's bytes, whose engine fetches them."""

        def get_blocks(
            self,
            window_offsets: Offsets,
            span: Memory,
            span_offsets: Offsets,
            sizes: Offsets,
            /,
            *,
            after: After = (),
            timeout: Optional[float] = None,
            deadline_ns: int = 0,
            label: Optional[str] = None,
            priority: int = 0,
            user_data: int = 0,
            scope: Optional[_core.Scope] = None,
            untracked: bool = False,
        ) -> "Future[None]":
            """Many gets by one call: blocks of the window into parts of a local span."""

        def put_blocks(
            self,
            window_offsets: Offsets,
            span: Memory,
            span_offsets: Offsets,
            sizes: Offsets,
            /,
            *,
            after: After = (),
            timeout: Optional[float] = None,
            deadline_ns: int = 0,
            label: Optional[str] = None,
            priority: int = 0,
            user_data: int = 0,
            scope: Optional[_core.Scope] = None,
            untracked: bool = False,
        ) -> "Future[None]":
            """Many puts by one call: parts of a local span into blocks of the window."""

    def describe(self) -> WindowInfo:
        """What this member knows of it; asks nobody."""
        state, *rest = self._describe()
        return WindowInfo(WindowState(state), *rest)

    def __repr__(self) -> str:
        info = self.describe()
        return f"<ferry.Window {info.name!r} of {info.owner}, {info.state.name}>"

    def __await__(self) -> Generator[Any, None, "Window"]:
        yield from self.ready.__await__()
        return self

    async def __aenter__(self) -> "Window":
        try:
            await self.ready
        except BaseException:
            await _finish(self)  # it may be open, if the task was cancelled
            raise
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await _finish(self)


async def _finish(window: Window) -> None:
    """Waits until it is closed, also if the task is cancelled."""
    cancelled: Optional[asyncio.CancelledError] = None
    is_closed = False
    while not is_closed:
        try:
            await window.close()
            is_closed = True
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
