# SPDX-License-Identifier: Apache-2.0
"""Stats: what an engine, or a scope, has done."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple


class Stats(NamedTuple):
    """Figures of an Engine(stats=1), or of a Scope of one. All but in_flight only grow."""

    #: Operations that have begun to wait or run; those that have resolved, and those that have not.
    entered: int
    resolved: int
    in_flight: int
    #: Those that have resolved, by kind ("copy").
    resolved_by_kind: Dict[str, int]
    #: Bytes of those that ended well, by way ("to_device").
    bytes_by_way: Dict[str, int]
    #: How many have failed, by status ("FERRY_E_CANCELLED").
    failures: Dict[str, int]
    #: Latencies, from entering to resolving, are those of one operation in so many.
    latency_every: int
    latency_count: int
    latency_sum_ns: int
    #: The i-th counts latencies from 2**i ns up to 2**(i+1), without it.
    latency_counts: Tuple[int, ...]

