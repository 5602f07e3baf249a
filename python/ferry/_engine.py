# SPDX-License-Identifier: Apache-2.0
"""Engine: what event loops need of it, and functions of Python's as operations."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import warnings
import weakref
from types import TracebackType
from typing import (
    Any,
    Awaitable,
    Callable,
    Dict,
    Generator,
    Iterable,
    Optional,
    Set,
    Type,
    TypeVar,
    overload,
)

from . import _core
from ._call import Call
from ._core import Completions, Future
from ._group import Joining
from ._plan import Operations, Plan
from ._scope import Scope
from ._stats import Stats
from ._types import After, Spans
from .errors import DeadlineError

T = TypeVar("T")
Loop = asyncio.AbstractEventLoop

_EXIT_TIMEOUT = 5.0  # how long an engine that nobody closed may take to end its operations


class Engine(_core.Engine):
    """Owns devices, memory and operations. `async with Engine() as engine:` closes it at the end.

    Options are those of ferry_engine_options that are numbers (`host_devices=2`, `max_nodes=...`).
    Any thread may use an engine. Futures can be awaited in any event loop that has add_reader().

    An operation begins when the operations before it that use the same bytes allow, whatever
    thread submitted them:

    >>> import asyncio, ferry
    >>> async def main():
    ...     async with ferry.Engine() as engine:
    ...         first = engine.allocate(5)
    ...         second = engine.allocate(5)
    ...         engine.copy(first, b"hello")      # not awaited: the next copy waits for it
    ...         await engine.copy(second, first)
    ...         return bytes(second)
    >>> asyncio.run(main())
    b'hello'
    """

    def __init__(self, **options: int) -> None:
        self._attached: Dict[Loop, Completions] = {}
        self._calls: Set[Call[Any]] = set()
        self._closed = False
        self._shutting_down = threading.Lock()
        _engines.add(self)

    @property
    def closed(self) -> bool:
        """Whether the engine was shut down."""
        return self._closed

    @overload
    def call(
        self,
        function: Callable[..., Awaitable[T]],
        *arguments: Any,
        executor: None = None,
        after: After = (),
        reads: Spans = (),
        writes: Spans = (),
        timeout: Optional[float] = None,
        label: Optional[str] = None,
        priority: int = 0,
        user_data: int = 0,
        scope: Optional[_core.Scope] = None,
        untracked: bool = False,
    ) -> "Future[T]":
        ...

    @overload
    def call(
        self,
        function: Callable[..., T],
        *arguments: Any,
        executor: Optional[concurrent.futures.Executor] = None,
        after: After = (),
        reads: Spans = (),
        writes: Spans = (),
        timeout: Optional[float] = None,
        label: Optional[str] = None,
        priority: int = 0,
        user_data: int = 0,
        scope: Optional[_core.Scope] = None,
        untracked: bool = False,
    ) -> "Future[T]":
        ...

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        executor: Optional[concurrent.futures.Executor] = None,
        **options: Any,
    ) -> "Future[Any]":
        """Runs a function, or a coroutine function, as an operation that reads and writes spans.

        It runs in the event loop of the caller, or of the engine if the caller has none; a plain
        function runs in `executor` if one is given. Other operations on the spans wait until it
        has ended. The future's result is what it returned. If it raises, the future fails with
        FailedError, whose `__cause__` is the exception. If the operation is cancelled or passes its
        deadline, the coroutine is cancelled.

        >>> import asyncio, ferry
        >>> async def main():
        ...     async with ferry.Engine() as engine:
        ...         block = engine.allocate(3)
        ...         async def fill():
        ...             memoryview(block)[:] = b"abc"
        ...             return "filled"
        ...         filled = engine.call(fill, writes=block)
        ...         target = bytearray(3)
        ...         await engine.copy(target, block)      # after fill(), which writes the block
        ...         return await filled, bytes(target)
        >>> asyncio.run(main())
        ('filled', b'abc')
        """
        loop, completions = self._home()
        target: Call[Any] = Call(self._calls, loop, function, arguments, executor)
        return self._call(completions, target, **options)

    def join(self, *, store: str, job: str, **options: Any) -> Joining:
        """Joins a group: `group = await engine.join(...)`, or `async with engine.join(...)`.

        `store` is where the members meet ("file:DIR", "etcd://host:2379", "mem:NAME"), `job` what
        they call themselves. Options: size, size_min, rank, place, secret (bytes), lease, timeout
        and linger (seconds), network and the other fields of ferry_group_options. `kind="open"`:
        members come and go, `size` of them at most, and Group.next_event() tells of them.
        """
        return Joining(self, dict(options, store=store, job=job))

    def operations(self) -> Operations:
        """An empty list of Operations, for plan()."""
        return Operations(self)

    def plan(self, operations: Operations) -> Plan:
        """A Plan of a list of operations, to be posted many times; the list may grow after it."""
        if operations.engine is not self:
            raise ValueError("the operations are of another engine")
        plan: Plan = Plan._make(operations)
        return plan

    def scope(
        self,
        *,
        timeout: Optional[float] = None,
        bytes_per_second: int = 0,
        burst_bytes: int = 0,
    ) -> Scope:
        """A Scope: `async with engine.scope(timeout=...) as scope:`, operations with `scope=scope`.

        `timeout` is for all operations that join, in seconds from now. At most `bytes_per_second`
        of copies and messages of the scope begin in a second, `burst_bytes` of them at once.
        """
        return Scope(
            self, timeout=timeout, bytes_per_second=bytes_per_second, burst_bytes=burst_bytes
        )

    def stats(self) -> Stats:
        """What the engine has done since it was made, with stats=1; UnsupportedError without."""
        return Stats(*self._stats())

    async def close(self, timeout: Optional[float] = None) -> None:
        """Fails what is under way, waits until all is quiet, and ends the engine's threads.

        Raises DeadlineError if something is not quiet after `timeout` seconds; call it again then.
        """
        loop = asyncio.get_running_loop()
        self._drop_calls(only_ended=True)
        # A thread of its own: all those of the loop may wait for this engine's operations.
        executor = concurrent.futures.ThreadPoolExecutor(1, "ferry-close")
        try:
            await loop.run_in_executor(executor, self._shutdown_in_turn, timeout)
        finally:
            executor.shutdown(wait=False)
        self._detach_all(loop)

    def shutdown(self, timeout: Optional[float] = None) -> None:
        """close() for programs without an event loop: blocks."""
        self._drop_calls(only_ended=True)
        self._shutdown_in_turn(timeout)
        self._detach_all(None)

    def _shutdown_in_turn(self, timeout: Optional[float]) -> None:
        """ferry refuses a second shutdown at the same time: after a close() that was cancelled."""
        if not self._shutting_down.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise DeadlineError("the engine is being shut down by another thread")
        try:
            self._shutdown(timeout)
            self._closed = True
        finally:
            self._shutting_down.release()

    async def __aenter__(self) -> "Engine":
        self._attach(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.shutdown()

    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        warnings.warn(f"an engine was not closed: {self!r}", ResourceWarning, source=self)
        self._end()

    def _end(self) -> None:
        """Ends an engine that nobody closed, as far as that goes in a few seconds."""
        self._drop_calls(only_ended=False)
        try:
            self._shutdown_in_turn(_EXIT_TIMEOUT)
        except Exception:  # ferry has logged what is not quiet, or this is a fork's child
            pass

    def _drop_calls(self, only_ended: bool) -> None:
        self._forget_ended()
        for call in list(self._calls):
            if not only_ended or call.loop.is_closed():
                call.drop()

    def _home(self) -> "tuple[Loop, Completions]":
        """The caller's event loop, or another one of the engine's."""
        try:
            loop = asyncio.get_running_loop()
            return loop, self._attached.get(loop) or self._attach(loop)
        except RuntimeError:
            for loop, completions in list(self._attached.items()):
                if not loop.is_closed():
                    return loop, completions
            raise RuntimeError(
                "a function needs an event loop to run in: none runs in this thread, and none has "
                "used the engine"
            ) from None

    def _forget_ended(self) -> None:
        """Loops that were closed run nothing: what was to begin there fails."""
        for loop in [loop for loop in self._attached if loop.is_closed()]:
            self._attached.pop(loop).close()

    def _attach(self, loop: Loop) -> Completions:
        self._forget_ended()
        completions = Completions(self)
        queue_fd, post_fd = completions.descriptors
        loop.add_reader(queue_fd, completions.take_records)
        loop.add_reader(post_fd, completions.take_post)
        loop.add_reader(_core.bin_descriptor(), _core.bin_told)
        self._attached[loop] = completions
        return completions

    def _detach(self, loop: Loop) -> None:
        """In the loop's own thread: takes the last news, then the descriptors out of the loop."""
        completions = self._attached.pop(loop, None)
        if completions is None:
            return
        completions.take_records()
        completions.take_post()
        for descriptor in completions.descriptors:
            loop.remove_reader(descriptor)
        completions.close()

    def _detach_all(self, here: Optional[Loop]) -> None:
        for loop in list(self._attached):
            if loop is here:
                self._detach(loop)
            elif loop.is_closed():
                self._attached.pop(loop).close()
            else:
                loop.call_soon_threadsafe(self._detach, loop)


def _wait(future: "Future[T]") -> Generator[Any, None, T]:
    """What `await future` runs where there is something to wait for, or to return."""
    if not future.done():
        loop = asyncio.get_running_loop()
        engine: Engine = future.engine
        completions = engine._attached.get(loop)
        if completions is None:
            completions = engine._attach(loop)
        waiting: "asyncio.Future[None]" = loop.create_future()
        completions.watch(future, waiting)
        try:
            yield from waiting
        except asyncio.CancelledError:
            future.cancel()
            raise
    return future.result()


_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def _close_all() -> None:
    """At exit: the interpreter must not free what operations under way use."""
    for engine in list(_engines):
        if not engine._closed:
            engine._end()
