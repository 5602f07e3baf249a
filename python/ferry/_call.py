# SPDX-License-Identifier: Apache-2.0
"""Functions of Python's as operations, by themselves and in plans."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, Set, TypeVar, Union

from . import _core
from ._core import Promise

if TYPE_CHECKING:
    from ._core import Future

T = TypeVar("T")
Loop = asyncio.AbstractEventLoop

_CANCELLED = _core.STATUSES["FERRY_E_CANCELLED"]


class Call(Generic[T]):
    """A function that is an operation: what it is given, its end, and what it returned."""

    def __init__(
        self,
        running: "Set[Call[Any]]",
        loop: Loop,
        function: Callable[..., Any],
        arguments: Any,
        executor: Optional[concurrent.futures.Executor],
        planned: "Optional[Planned]" = None,
    ) -> None:
        self.loop = loop
        self.planned = planned
        self.value: Optional[T] = None
        self.error: Optional[BaseException] = None
        self._running = running
        self._function = function
        self._arguments = arguments
        self._executor = executor
        self._context = planned.context.copy() if planned else contextvars.copy_context()
        self._promise: Optional[Promise] = None
        self._work: Union[None, "asyncio.Future[T]", "concurrent.futures.Future[T]"] = None
        self._is_cancelled = False

    def __call__(self, future: "Future[T]") -> Optional[T]:
        return self.value

    def begin(self, promise: Promise) -> None:
        """The operation may begin. Its accesses are held until the promise is resolved."""
        self._promise = promise
        self._running.add(self)
        self.loop.call_soon(self._run, context=self._context)

    def cancel(self) -> None:
        """The operation has failed meanwhile: what runs is asked to end."""
        self._is_cancelled = True
        if self._work is not None:
            self._work.cancel()

    def has_failed(self) -> bool:
        """Whether the operation has ended without its function."""
        return self._promise is not None and self._promise.future.done()

    def drop(self) -> None:
        """Nobody will run it: its event loop has ended."""
        promise, self._promise = self._promise, None
        self._running.discard(self)
        if promise is not None:
            promise.release()

    def _run(self) -> None:
        if self._is_cancelled or self._promise is None:
            return self._fail(asyncio.CancelledError())
        try:
            if self._executor is not None:
                run: Callable[..., T] = self._context.copy().run
                self._work = self._executor.submit(run, self._function, *self._arguments)
                return self._work.add_done_callback(self._end)
            value = self._function(*self._arguments)
            if inspect.isawaitable(value):
                self._work = asyncio.ensure_future(value)
                return self._work.add_done_callback(self._end)
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise
            return
        self._succeed(value)

    def _end(self, work: Any) -> None:
        """In an executor's thread, or in the event loop."""
        if work.cancelled():
            self._fail(asyncio.CancelledError())
        elif work.exception() is not None:
            self._fail(work.exception())
        else:
            self._succeed(work.result())

    def _succeed(self, value: Any) -> None:
        self.value = value
        promise = self._take_promise()
        if promise is not None:
            promise.resolve()
            promise.release()

    def _fail(self, error: BaseException) -> None:
        self.error = error
        promise = self._take_promise()
        if promise is None:
            return
        if isinstance(error, asyncio.CancelledError):
            promise.fail("the function was cancelled", _CANCELLED)
        else:
            promise.fail(f"{type(error).__name__}: {error}"[:200])
        promise.release()

    def _take_promise(self) -> Optional[Promise]:
        promise, self._promise = self._promise, None
        self._running.discard(self)
        self._work = None
        return promise


class Planned:
    """A function in a plan: each post that gets there begins a Call, and several may run at once."""

    def __init__(
        self,
        running: Set[Call[Any]],
        loop: Loop,
        function: Callable[..., Any],
        arguments: Any,
        executor: Optional[concurrent.futures.Executor],
    ) -> None:
        self.context = contextvars.copy_context()
        self._running = running
        self._loop = loop
        self._function = function
        self._arguments = arguments
        self._executor = executor

    def begin(self, promise: Promise) -> None:
        """A post has got there."""
        call: Call[Any] = Call(
            self._running, self._loop, self._function, self._arguments, self._executor, self
        )
        call.begin(promise)

    def cancel(self) -> None:
        """One of those that have begun has failed; ferry does not say which."""
        for call in list(self._running):
            if call.planned is self and call.has_failed():
                call.cancel()
