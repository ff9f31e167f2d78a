"""When a delayed record is due, and through which delay topics it gets there (spec/jobs.md, "Delay topics").

A delay topic holds every record for one fixed time, so the order of its log is the order in which records
leave it. A record enters the topic of the longest time that still fits and goes down the ladder until it is
due. Its due time is absolute and written once, so the lateness of one hop is never added to the next one's.
Pure: times come in as Unix ms, of the clock that the caller trusts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.dead import Header
from schemas.delayed import DUE_AT as DUE_AT
from schemas.delayed import ORIGINAL_TIMESTAMP as ORIGINAL_TIMESTAMP
from schemas.delayed import headers_for as headers_for
from schemas.delayed import time_in
from schemas.topic_names import DELAY, JOBS

TIERS_MS: Final[Mapping[str, int]] = {
    "100ms": 100,
    "1s": 1_000,
    "10s": 10_000,
    "1m": 60_000,
    "10m": 600_000,
    "1h": 3_600_000,
    "6h": 6 * 3_600_000,
    "1d": 24 * 3_600_000,
}
"""The delay topics by the last part of their names, shortest first; ms that a record stays in one."""

DELAY_TOPICS: Final[Mapping[str, int]] = {f"{DELAY}.{tier}": wait_ms for tier, wait_ms in TIERS_MS.items()}
"""Topic name without prefix → ms that a record stays in it; shortest first."""

_LADDER: Final = sorted(DELAY_TOPICS.items(), key=lambda tier: tier[1], reverse=True)
_SHORTEST: Final = _LADDER[-1][0]


def first_tier(due_ms: int, now_ms: int) -> str:
    """Where a record that is due at `due_ms` goes at `now_ms`: a topic's name without prefix.

    The longest delay that still fits; the shortest one for less than that, so it comes up to 100 ms late
    and never early; `dispatch.jobs` when it is due. Any distance works: a record of next month goes
    through the topic of a day again and again.
    """
    left_ms = due_ms - now_ms
    if left_ms <= 0:
        return JOBS
    return next((topic for topic, wait_ms in _LADDER if wait_ms <= left_ms), _SHORTEST)


def next_hop(due_ms: int, leaves_ms: int) -> str:
    """Where a record goes that leaves a delay topic at `leaves_ms`: by the same rule as at first.

    `leaves_ms` is when it really leaves: a forwarder that was away doesn't send it through delays
    whose time has passed meanwhile.
    """
    return first_tier(due_ms, leaves_ms)


def read_due(headers: Sequence[Header]) -> int | None:
    """When a record is due, Unix ms; None when its header is missing or is no decimal number of 15 digits.

    Of several the latest counts (never early). Without a due time there is no right moment to forward
    a record: it belongs to the dead letters.
    """
    due_ms: int | None = None
    for name, value in headers:
        if name == DUE_AT:
            one = time_in(value)
            if one is None:
                return None
            due_ms = one if due_ms is None else max(due_ms, one)
    return due_ms


def delayed_record(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    *,
    due_ms: int,
    now_ms: int,
    original_timestamp_ms: int,
) -> tuple[str, tuple[bytes | None, bytes | None, int, list[Header]]]:
    """A record as it is sent to be delayed: topic without prefix, and (key, value, partition -1, headers).

    What is due already goes to `dispatch.jobs` at once, with the same headers.
    """
    item = (key, value, -1, headers_for(due_ms, headers, original_timestamp_ms))
    return first_tier(due_ms, now_ms), item
