# SPDX-License-Identifier: Apache-2.0
"""ferry's failures as exceptions: a class for each status, all of them FerryError.

>>> import ferry
>>> issubclass(ferry.DeadlineError, TimeoutError)
True
>>> ferry.DeadlineError.status
-33
"""

from __future__ import annotations

from typing import Dict, Optional, Type

from . import _core


class FerryError(Exception):
    """Something that ferry was asked to do failed. `__cause__` is the first failure behind it."""

    #: The status's number (status.h); of the class, or of the error where the user gave it.
    status: int = 0

    def __init__(
        self,
        message: str = "",
        *,
        native_code: int = 0,
        domain: str = "ferry",
        op: int = 0,
        rank: Optional[int] = None,
        label: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        #: A code of `domain`, for example a driver's error number; 0 if there is none.
        self.native_code = native_code
        self.domain = domain
        #: The number of the operation that failed, as in traces; 0 if there is none.
        self.op = op
        #: The member that caused the failure; None: this process.
        self.rank = rank
        #: The label of the operation that failed.
        self.label = label

    def __str__(self) -> str:
        notes = []
        if self.op:
            notes.append(f"operation {self.op}" + (f" \"{self.label}\"" if self.label else ""))
        if self.rank is not None:
            notes.append(f"member {self.rank}")
        if self.native_code:
            notes.append(f"{self.domain} {self.native_code}")
        return f"{self.message} ({', '.join(notes)})" if notes else self.message


class InvalidError(FerryError, ValueError):
    """An argument is invalid, or contradicts what the engine is or others said."""

    status = _core.STATUSES["FERRY_E_INVALID"]


class NoMemoryError(FerryError, MemoryError):
    """There is no memory."""

    status = _core.STATUSES["FERRY_E_NO_MEMORY"]


class AgainError(FerryError):
    """A limit of the engine is reached. `await engine.writable()`, then try again."""

    status = _core.STATUSES["FERRY_E_AGAIN"]


class DeadlockError(FerryError, RuntimeError):
    """The call would wait for itself."""

    status = _core.STATUSES["FERRY_E_DEADLOCK"]


class ForkedError(FerryError, RuntimeError):
    """The engine belongs to the parent process."""

    status = _core.STATUSES["FERRY_E_FORKED"]


class NotFoundError(FerryError, LookupError):
    """There is no such device, member, key, driver..."""

    status = _core.STATUSES["FERRY_E_NOT_FOUND"]


class UnsupportedError(FerryError):
    """This build, machine or device cannot do it."""

    status = _core.STATUSES["FERRY_E_UNSUPPORTED"]


class BusyError(FerryError):
    """It is in use, or another thread is doing this now."""

    status = _core.STATUSES["FERRY_E_BUSY"]


class CaptureError(FerryError):
    """The GPU's stream is being captured."""

    status = _core.STATUSES["FERRY_E_CAPTURE"]


class NotIssuedError(FerryError):
    """The operation is not in a stream yet. `await future.issued()`, then try again."""

    status = _core.STATUSES["FERRY_E_NOT_ISSUED"]


class ChangedError(FerryError):
    """It exists already, or was changed meanwhile."""

    status = _core.STATUSES["FERRY_E_CHANGED"]


class CancelledError(FerryError):
    """The operation was cancelled. (A task that is cancelled gets asyncio's CancelledError.)"""

    status = _core.STATUSES["FERRY_E_CANCELLED"]


class DeadlineError(FerryError, TimeoutError):
    """The deadline passed."""

    status = _core.STATUSES["FERRY_E_DEADLINE"]


class DependencyError(FerryError):
    """Something that the operation depends on failed: `__cause__`."""

    status = _core.STATUSES["FERRY_E_DEPENDENCY"]


class BrokenPromiseError(FerryError):
    """The promise was dropped before it was resolved."""

    status = _core.STATUSES["FERRY_E_BROKEN_PROMISE"]


class FailedError(FerryError):
    """A function failed (its exception is the `__cause__`), or a promise was failed."""

    status = _core.STATUSES["FERRY_E_FAILED"]


class LengthError(FerryError):
    """The two ends of a message have different sizes."""

    status = _core.STATUSES["FERRY_E_LENGTH"]


class PeerError(FerryError, ConnectionError):
    """The connection to the other member failed."""

    status = _core.STATUSES["FERRY_E_PEER"]


class DeadError(FerryError, ConnectionError):
    """A member has died or left."""

    status = _core.STATUSES["FERRY_E_DEAD"]


class DeviceError(FerryError):
    """A device reported an error; `native_code` is the driver's number."""

    status = _core.STATUSES["FERRY_E_DEVICE"]


class ShutdownError(FerryError):
    """The engine is closing or closed."""

    status = _core.STATUSES["FERRY_E_SHUTDOWN"]


class SystemFailedError(FerryError):
    """The operating system refused something that the engine needs."""

    status = _core.STATUSES["FERRY_E_SYSTEM"]


class StoreError(FerryError):
    """The store is unreachable, or its response is invalid."""

    status = _core.STATUSES["FERRY_E_STORE"]


class FencedError(FerryError):
    """This member was declared dead, or another has its place."""

    status = _core.STATUSES["FERRY_E_FENCED"]


class PendingError(FerryError):
    """The future has not resolved yet."""

    status = _core.STATUSES["FERRY_PENDING"]


_CLASSES: Dict[int, Type[FerryError]] = {
    kind.status: kind for kind in FerryError.__subclasses__()
}


def make_error(
    status: int,
    domain: str,
    native_code: int,
    op: int,
    rank: Optional[int],
    label: Optional[str],
    message: str,
    cause: Optional[FerryError],
) -> FerryError:
    """The exception for an error of ferry's; the part in C calls this."""
    kind = _CLASSES.get(status, FerryError)
    made = kind(message, native_code=native_code, domain=domain, op=op, rank=rank, label=label)
    if kind is FerryError:
        made.status = status
    made.__cause__ = cause
    return made
