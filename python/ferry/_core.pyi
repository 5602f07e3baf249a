# SPDX-License-Identifier: Apache-2.0
import asyncio
from typing import (
    Any,
    Callable,
    Dict,
    Generator,
    Generic,
    Iterable,
    Optional,
    Tuple,
    TypeVar,
    Union,
)

from ._engine import Engine as _Engine
from ._group import Group as _Group
from ._types import After, Memory, Offsets, Picks, Spans

T = TypeVar("T")

STATUSES: Dict[str, int]
VERSION: str

def _setup(make_error: Callable[..., BaseException], wait: Callable[..., Any]) -> None: ...
def bin_descriptor() -> int: ...
def bin_told() -> None: ...

class Future(Generic[T]):
    @property
    def status(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def engine(self) -> _Engine: ...
    def done(self) -> bool: ...
    def result(self) -> T: ...
    def exception(self) -> Optional[BaseException]: ...
    def cancel(self) -> None: ...
    def wait(self, timeout: Optional[float] = None) -> bool: ...
    def quiet(self) -> Future[None]: ...
    def issued(self) -> Future[None]: ...
    def stream_wait(self, device: str, stream: int = 0, /) -> None: ...
    def _value(self) -> Tuple[bytes, int]: ...
    def _message(self) -> Tuple[int, int, int]: ...
    def __await__(self) -> Generator[Any, None, T]: ...

class Promise:
    @property
    def future(self) -> Future[bytes]: ...
    def resolve(self, value: bytes = b"") -> None: ...
    def fail(self, message: Optional[str] = None, status: int = -36) -> None: ...
    def release(self) -> None: ...

class Buffer:
    @property
    def span(self) -> Span: ...
    @property
    def device(self) -> str: ...
    @property
    def address(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def engine(self) -> _Engine: ...
    def __len__(self) -> int: ...
    def __getitem__(self, part: slice) -> Span: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int) -> memoryview: ...
    def __enter__(self) -> Buffer: ...
    def __exit__(self, *error: Any) -> None: ...
    def close(self) -> None: ...
    def released(self) -> Future[None]: ...
    def define(self, future: Optional[Future[Any]] = None) -> None: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Any = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

class Span:
    def __init__(
        self, buffer: Buffer, offset_bytes: int = 0, size_bytes: int = ...
    ) -> None: ...
    @property
    def buffer(self) -> Buffer: ...
    @property
    def offset_bytes(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, part: slice) -> Span: ...
    def view(self) -> memoryview: ...
    def define(self, future: Optional[Future[Any]] = None) -> None: ...

class Scope:
    def __new__(
        cls,
        engine: Engine,
        timeout: Optional[float] = None,
        bytes_per_second: int = 0,
        burst_bytes: int = 0,
    ) -> Any: ...
    @property
    def engine(self) -> _Engine: ...
    def close(self) -> Future[None]: ...
    def cancel(self) -> Future[None]: ...
    def _stats(self) -> Tuple[Any, ...]: ...

class Completions:
    def __init__(self, engine: Engine) -> None: ...
    @property
    def descriptors(self) -> Tuple[int, int]: ...
    @property
    def watching(self) -> int: ...
    def watch(self, future: Future[Any], waiting: asyncio.Future[None]) -> None: ...
    def take_records(self) -> None: ...
    def take_post(self) -> None: ...
    def close(self) -> None: ...

class Engine:
    def __new__(cls, **options: int) -> Any: ...
    @property
    def devices(self) -> Tuple[str, ...]: ...
    def copy(
        self,
        dst: Memory,
        src: Memory,
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def copy_rows(
        self,
        dst: Memory,
        dst_pitch_bytes: int,
        src: Memory,
        src_pitch_bytes: int,
        rows: int,
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def copy_pairs(
        self,
        pairs: Iterable[Tuple[Union[Buffer, Span], Union[Buffer, Span]]],
        /,
        *,
        after: After = (),
        timeout: Optional[float] = None,
        deadline_ns: int = 0,
        label: Optional[str] = None,
        priority: int = 0,
        user_data: int = 0,
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def copy_blocks(
        self,
        dst: Memory,
        src: Memory,
        dst_offsets: Offsets,
        src_offsets: Offsets,
        sizes: Offsets,
        /,
        *,
        after: After = (),
        timeout: Optional[float] = None,
        deadline_ns: int = 0,
        label: Optional[str] = None,
        priority: int = 0,
        user_data: int = 0,
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def nop(
        self,
        *,
        after: After = (),
        reads: Spans = (),
        writes: Spans = (),
        timeout: Optional[float] = None,
        deadline_ns: int = 0,
        label: Optional[str] = None,
        priority: int = 0,
        user_data: int = 0,
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def _call(self, completions: Completions, target: Any, /, **options: Any) -> Future[Any]: ...
    def _join(self, **options: Any) -> Tuple[Group, Future[None]]: ...
    def _shutdown(self, timeout: Optional[float] = None) -> None: ...
    def promise(self) -> Promise: ...
    def drain(self) -> Future[None]: ...
    def writable(self) -> Future[None]: ...
    def all(self, futures: Iterable[Future[Any]], /) -> Future[None]: ...
    def any(self, futures: Iterable[Future[Any]], /) -> Future[None]: ...
    def allocate(
        self, size_bytes: int, device: str = "host:0", kind: str = "default"
    ) -> Buffer: ...
    def buffer(
        self, exporter: Memory, readonly: Optional[bool] = None, device: Optional[str] = None
    ) -> Buffer: ...
    def open_device(self, name: str, /) -> str: ...
    def record_event(self, device: str, stream: int = 0, /) -> Future[None]: ...
    def deadline_in(self, seconds: float, /) -> int: ...
    def dump(self) -> str: ...
    def _stats(self) -> Tuple[Any, ...]: ...

class Group:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def stop_step(self) -> Optional[int]: ...
    @property
    def engine(self) -> _Engine: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def _next_notice(
        self, timeout: Optional[float], convert: Callable[[Future[T]], T], /
    ) -> Future[T]: ...
    def _next_event(
        self, timeout: Optional[float], convert: Callable[[Future[T]], T], /
    ) -> Future[T]: ...
    def give_notice(self) -> Future[None]: ...
    def _leave(self) -> Future[None]: ...
    def _close(self) -> None: ...
    def _barrier(
        self, name: str, members: Optional[Iterable[int]], timeout: Optional[float], /
    ) -> Future[None]: ...
    def _set(self, key: str, data: bytes, timeout: Optional[float], /) -> Future[None]: ...
    def _get(
        self, key: str, timeout: Optional[float], convert: Callable[[Future[T]], T], /
    ) -> Future[T]: ...
    def _try_get(
        self, key: str, timeout: Optional[float], convert: Callable[[Future[T]], T], /
    ) -> Future[T]: ...
    def _watch(
        self, key: str, seen: int, timeout: Optional[float], convert: Callable[[Future[T]], T], /
    ) -> Future[T]: ...
    def _alive(
        self, timeout: Optional[float], convert: Callable[[Future[T]], T], /
    ) -> Future[T]: ...
    def _step(self, number: int, timeout: Optional[float], /) -> Future[None]: ...
    def _nccl_pause(self, timeout: Optional[float], /) -> Future[None]: ...
    def _nccl_resume(self) -> Future[None]: ...
    def _member(self, rank: int, /) -> Tuple[Any, ...]: ...

class Window:
    @classmethod
    def _open(cls, group: Group, span: Memory, name: str, rights: str, /) -> Any: ...
    @classmethod
    def _find(
        cls, group: Group, owner: int, name: str, timeout: Optional[float], /
    ) -> Any: ...
    @property
    def ready(self) -> Future[None]: ...
    @property
    def engine(self) -> _Engine: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def close(self) -> Future[None]: ...
    def _describe(self) -> Tuple[Any, ...]: ...

class Operations:
    def __init__(self, engine: Engine) -> None: ...
    @property
    def engine(self) -> _Engine: ...
    def __len__(self) -> int: ...
    def copy(
        self,
        dst: Memory,
        src: Memory,
        /,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int: ...
    def copy_blocks(
        self,
        dst: Memory,
        src: Memory,
        dst_offsets: Offsets,
        src_offsets: Offsets,
        sizes: Offsets,
        /,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> range: ...
    def get(
        self,
        window: Window,
        offset: int,
        span: Memory,
        /,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int: ...
    def put(
        self,
        window: Window,
        offset: int,
        span: Memory,
        /,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int: ...
    def get_blocks(
        self,
        window: Window,
        window_offsets: Offsets,
        span: Memory,
        span_offsets: Offsets,
        sizes: Offsets,
        /,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> range: ...
    def put_blocks(
        self,
        window: Window,
        window_offsets: Offsets,
        span: Memory,
        span_offsets: Offsets,
        sizes: Offsets,
        /,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> range: ...
    def send(
        self,
        group: _Group,
        peer: int,
        span: Memory,
        /,
        *,
        tag: int = 0,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int: ...
    def recv(
        self,
        group: _Group,
        peer: int,
        span: Memory,
        /,
        *,
        tag: int = 0,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int: ...
    def send_notice(
        self,
        group: _Group,
        peer: int,
        data: Memory,
        /,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int: ...
    def nop(
        self,
        *,
        reads: Spans = (),
        writes: Spans = (),
        label: Optional[str] = None,
        priority: int = 0,
        untracked: bool = False,
    ) -> int: ...
    def _call(self, completions: Completions, target: Any, /, **options: Any) -> int: ...

class Plan:
    @classmethod
    def _make(cls, operations: Operations, /) -> Any: ...
    @property
    def engine(self) -> _Engine: ...
    @property
    def closed(self) -> bool: ...
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
        scope: Optional[Scope] = None,
        untracked: bool = False,
    ) -> Future[None]: ...
    def close(self) -> None: ...
    def enqueue(self, device: str, stream: int = 0, /) -> None: ...
    def _describe(self) -> Tuple[int, int, int, int, int, int]: ...
