# SPDX-License-Identifier: Apache-2.0
"""Types of arguments."""

from typing import Any, Iterable, Literal, Sequence, Union

from ._core import Buffer, Future, Span

#: A Buffer, a Span, or anything with the buffer protocol or DLPack, which is then used for that one
#: operation. (Types can say "buffer protocol" only from Python 3.12 on.)
Memory = Any
Spans = Union[Buffer, Span, Iterable[Union[Buffer, Span]]]
#: One number for all, a sequence of numbers, or an array of integers of 32 or 64 bits.
Offsets = Union[int, Sequence[int], Any]
#: Indices of a plan's operations: a sequence of numbers, or an array of integers.
Picks = Union[Sequence[int], Any]
After = Union["Future[Any]", Iterable["Future[Any]"]]
#: What the other members may do with a window.
Rights = Literal["get", "put", "both"]
