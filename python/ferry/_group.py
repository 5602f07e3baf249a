# SPDX-License-Identifier: Apache-2.0
"""Group: the processes of one job."""

from __future__ import annotations

import enum
import struct
import sys
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Generator,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Type,
    Union,
)

from . import _core
from ._core import Future
from ._types import After, Memory, Rights, Spans
from ._window import Window

if TYPE_CHECKING:
    from ._engine import Engine


class Value(NamedTuple):
    """A value of a group's store."""

    data: bytes
    #: Grows with every change of the key; 0: there is no key.
    version: int


class MemberState(enum.Enum):
    """What this member knows of a member."""

    ABSENT = 0
    HERE = 1
    LEFT = 2
    DEAD = 3


class Member(NamedTuple):
    """A member of a group."""

    state: MemberState
    rank: int
    #: Of its newest start; each start has a larger one.
    incarnation: int
    is_on_this_host: bool
    host: str
    pid: int
    #: Bytes of GPU memory that were read where they were, went through host memory, or over NCCL.
    ipc_bytes: int
    staged_bytes: int
    nccl_bytes: int
    #: In so many groups of NCCL's.
    nccl_groups: int


class Event(NamedTuple):
    """What has happened to a member of a group."""

    #: HERE: it has joined; LEFT or DEAD: it has ended.
    state: MemberState
    rank: int
    #: The member's.
    incarnation: int
    #: So many events before this one were dropped, because nobody took them.
    lost: int
    #: In an open group it grows, and is the same for all members; 0 in a closed one.
    number: int


class Notice(NamedTuple):
    """A notice of a member."""

    rank: int
    data: bytes


def _as_value(future: "Future[Value]") -> Value:
    return Value(*future._value())


def _as_ranks(future: "Future[List[int]]") -> List[int]:
    data, _ = future._value()
    return [
        int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)
    ]


_EVENT = struct.Struct("@iIQQ")  # ferry_group_event, to which later versions may add


def _as_event(future: "Future[Event]") -> Event:
    data, number = future._value()
    state, rank, incarnation, lost = _EVENT.unpack_from(data)
    return Event(MemberState(state), rank, incarnation, lost, number)


def _as_notice(future: "Future[Notice]") -> Notice:
    return Notice(future._message()[0], future._value()[0])


class Group:
    """The processes of a job, which meet through a store. Engine.join() makes it.

    The k-th send to a member with a tag meets that member's k-th receive from this one with the
    tag, in the order in which each program submits:

    >>> import asyncio, ferry
    >>> async def main():
    ...     async with ferry.Engine() as engine:
    ...         async with engine.join(store="mem:doctest", job="one", size=1) as group:
    ...             target = bytearray(5)
    ...             sent = group.send(0, b"hello", tag=7)
    ...             await group.recv(0, target, tag=7)
    ...             await sent
    ...             await group.set("key", b"value")
    ...             return bytes(target), (await group.get("key")).data
    >>> asyncio.run(main())
    (b'hello', b'value')
    """

    def __init__(self, group: _core.Group) -> None:
        self._group = group
        # The methods of the part in C as they are: a call less for each message.
        self.__dict__.update(
            send=group.send, recv=group.recv, send_notice=group.send_notice
        )

    if TYPE_CHECKING:

        def send(
            self,
            peer: int,
            span: Memory,
            /,
            *,
            tag: int = 0,
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
            """Sends a span to a member, when its contents are there."""

        def recv(
            self,
            peer: int,
            span: Memory,
            /,
            *,
            tag: int = 0,
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
            """Receives a message into a span of its size. Readers of the span wait for it."""

        def send_notice(
            self,
            peer: int,
            data: Memory,
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
            """Sends up to 4096 bytes, which are copied in the call, and need no receive.

            The future resolves when the other program has taken the notice.
            """

    @property
    def rank(self) -> int:
        """This member's rank."""
        return self._group.rank

    @property
    def size(self) -> int:
        """The number of members."""
        return self._group.size

    @property
    def stop_step(self) -> Optional[int]:
        """The step after which all stop, or None if no member has given notice."""
        return self._group.stop_step

    def member(self, rank: int) -> Member:
        """What this member knows of a member; asks nobody."""
        state, *rest = self._group._member(rank)
        return Member(MemberState(state), *rest)

    def open_window(self, span: Memory, name: str, *, rights: Rights = "get") -> Window:
        """Opens a Window over memory of this member's, which the others find by its name.

        `rights` says what they may do: "get", "put" or "both". The memory is held until the window
        is closed. `window = await group.open_window(...)`, or `async with`, which closes it.
        """
        window: Window = Window._open(self._group, span, name, rights)
        return window

    def find_window(self, owner: int, name: str, *, timeout: Optional[float] = None) -> Window:
        """Finds a Window of another member's, once it is open: await it, or use `async with`."""
        window: Window = Window._find(self._group, owner, name, timeout)
        return window

    def next_notice(self, *, timeout: Optional[float] = None) -> "Future[Notice]":
        """Takes the next Notice of any member.

        A task that is cancelled while it awaits this may drop a notice that has just come. Keep
        the future where that matters: its result says, if it is not cancelled.
        """
        return self._group._next_notice(timeout, _as_notice)

    def next_event(self, *, timeout: Optional[float] = None) -> "Future[Event]":
        """Takes the next Event of the group: that another member has joined, left or died.

        >>> import asyncio, ferry
        >>> async def main():
        ...     def join(engine):
        ...         return engine.join(store="mem:event", job="one", kind="open", size=8)
        ...     async with ferry.Engine() as engine, ferry.Engine() as other:
        ...         async with join(engine) as group:
        ...             async with join(other):
        ...                 here = await group.next_event()
        ...             gone = await group.next_event()
        ...             return here.state.name, gone.state.name, here.rank == gone.rank
        >>> asyncio.run(main())
        ('HERE', 'LEFT', True)

        A task that is cancelled while it awaits this may drop an event that has just come, as with
        next_notice().
        """
        return self._group._next_event(timeout, _as_event)

    def barrier(
        self,
        name: str,
        members: Optional[Iterable[int]] = None,
        *,
        timeout: Optional[float] = None,
    ) -> "Future[None]":
        """Resolves when all members, or those named, have called it with the same name."""
        return self._group._barrier(name, members, timeout)

    def set(self, key: str, data: bytes, *, timeout: Optional[float] = None) -> "Future[None]":
        """Sets a value that all members see."""
        return self._group._set(key, data, timeout)

    def get(self, key: str, *, timeout: Optional[float] = None) -> "Future[Value]":
        """The key's value, once there is one."""
        return self._group._get(key, timeout, _as_value)

    def try_get(self, key: str, *, timeout: Optional[float] = None) -> "Future[Value]":
        """The key's value; NotFoundError if there is none."""
        return self._group._try_get(key, timeout, _as_value)

    def watch(
        self, key: str, seen: int = 0, *, timeout: Optional[float] = None
    ) -> "Future[Value]":
        """The key's value, once its version is above `seen`."""
        return self._group._watch(key, seen, timeout, _as_value)

    def alive(self, *, timeout: Optional[float] = None) -> "Future[List[int]]":
        """The ranks of the live members, as all of them agree. Every live member must call."""
        return self._group._alive(timeout, _as_ranks)

    def give_notice(self) -> "Future[None]":
        """This member has to go: all will agree on a step after which to stop."""
        return self._group.give_notice()

    def step(self, number: int, *, timeout: Optional[float] = None) -> "Future[None]":
        """Call it before each step; see ferry_group_step."""
        return self._group._step(number, timeout)

    def nccl_paused(self, *, timeout: Optional[float] = None) -> "Pause":
        """`async with group.nccl_paused():` around a collective of NCCL's of the program's own.

        Inside, ferry has nothing of NCCL's on this member's GPUs: see ferry_group_nccl_pause. End
        the collective on its stream before leaving. A group that does not use NCCL has nothing to
        pause.
        """
        return Pause(self._group, timeout)

    async def leave(self) -> None:
        """Delivers what was sent, then leaves."""
        try:
            await self._group._leave()
        finally:
            self._group._close()


class Pause:
    """A pause of a group's NCCL; pauses of one group don't nest."""

    def __init__(self, group: _core.Group, timeout: Optional[float]) -> None:
        self._group = group
        self._timeout = timeout

    async def __aenter__(self) -> None:
        try:
            await self._group._nccl_pause(self._timeout)
        except BaseException:
            self._group._nccl_resume()  # it may have resolved while the task was cancelled
            raise

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self._group._nccl_resume()


class Joining:
    """A join under way: await it for the Group, or use it in `async with`, which also leaves."""

    def __init__(self, engine: "Engine", options: Dict[str, Any]) -> None:
        self._engine = engine
        self._options = options
        self._group: Optional[Group] = None

    async def _join(self) -> Group:
        group, joined = self._engine._join(**self._options)
        try:
            await joined
        except BaseException:
            group._close()
            raise
        return Group(group)

    def __await__(self) -> Generator[Any, None, Group]:
        return self._join().__await__()

    async def __aenter__(self) -> Group:
        self._group = await self._join()
        return self._group

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._group is not None:
            await self._group.leave()
