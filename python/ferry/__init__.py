# SPDX-License-Identifier: Apache-2.0
"""ferry: asynchronous transfers between devices and processes, for asyncio.

>>> import asyncio, ferry
>>> async def main():
...     async with ferry.Engine() as engine:
...         source = engine.buffer(b"forty-two")
...         target = engine.allocate(9, device="host:1")
...         await engine.copy(target, source)
...         return bytes(target)
>>> asyncio.run(main())
b'forty-two'
"""

from ._core import Buffer, Future, Promise, Span
from ._engine import Engine, _close_all, _wait
from ._group import Event, Group, Member, MemberState, Notice, Value
from ._plan import Operations, Plan, PlanInfo
from ._scope import Scope
from ._stats import Stats
from ._window import Window, WindowInfo, WindowState
from .errors import (
    AgainError,
    BrokenPromiseError,
    BusyError,
    CancelledError,
    CaptureError,
    ChangedError,
    DeadError,
    DeadlineError,
    DeadlockError,
    DependencyError,
    DeviceError,
    FailedError,
    FencedError,
    FerryError,
    ForkedError,
    InvalidError,
    LengthError,
    NoMemoryError,
    NotFoundError,
    NotIssuedError,
    PeerError,
    PendingError,
    ShutdownError,
    StoreError,
    SystemFailedError,
    UnsupportedError,
    make_error,
)
from . import _core

import atexit as _atexit

__version__ = _core.VERSION

__all__ = [
    "AgainError",
    "BrokenPromiseError",
    "Buffer",
    "BusyError",
    "CancelledError",
    "CaptureError",
    "ChangedError",
    "DeadError",
    "DeadlineError",
    "DeadlockError",
    "DependencyError",
    "DeviceError",
    "Engine",
    "Event",
    "FailedError",
    "FencedError",
    "FerryError",
    "ForkedError",
    "Future",
    "Group",
    "InvalidError",
    "LengthError",
    "Member",
    "MemberState",
    "NoMemoryError",
    "NotFoundError",
    "NotIssuedError",
    "Notice",
    "Operations",
    "PeerError",
    "PendingError",
    "Plan",
    "PlanInfo",
    "Promise",
    "Scope",
    "ShutdownError",
    "Span",
    "Stats",
    "StoreError",
    "SystemFailedError",
    "UnsupportedError",
    "Value",
    "Window",
    "WindowInfo",
    "WindowState",
]

_core._setup(make_error, _wait)
_atexit.register(_close_all)
