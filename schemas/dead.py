"""Dead letters: the original record as it was, with headers that say why (spec/jobs.md, Dead letters).

Ours are named plainly; those that start with `kafka_dlt-` are the ones other people's tools read. Each
is written once: a record that dies again keeps its first origin. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from schemas.topic_names import DEAD, PARKING

Header = tuple[str, bytes | None]

MESSAGE_BYTES: Final = 1_000
"""Budget of the error text in a header."""
TRACE_BYTES: Final = 4_000
"""Budget of a stack trace that another tool put into a header: hops must not make a letter too large."""

REPLAY: Final = "replay"
"""Header: the number of the run that sent a record again (spec/dispatch.md, Replays)."""
REPLAYS: Final = "replays"
"""Header: how often a record was requeued."""
COPIED_FROM: Final = "copied-from"
"""Header of a record that was sent again: `<topic>/<partition>/<offset>` of what it is a copy of."""
LEFT_OUT: Final = "value-left-out"
"""Header of a letter without its value, which no topic would take: the value's size in bytes."""
LARGEST_LETTER: Final = 4 * 1024 * 1024 + 192 * 1024
"""Bytes of a letter that its topic takes for sure: somewhat less than the topic's limit."""
MOST_REPLAYS: Final = 3
"""A record that dies after so many goes to the parking lot, which no selection touches by itself."""

_ONCE: Final = frozenset(
    {
        "first-failed-at",
        "kafka_dlt-original-topic",
        "kafka_dlt-original-partition",
        "kafka_dlt-original-offset",
        "kafka_dlt-original-timestamp",
    }
)
_OF_ONE_DEATH: Final = frozenset(
    {
        "stage",
        "reason",
        "event-id",
        "job-id",
        "attempt",
        "rekeyed",
        "unknown-since",
        "due-at",
        "forward-to",
        "kafka_dlt-exception-fqcn",
        "kafka_dlt-exception-message",
    }
)
_DIGITS: Final = 9


class Origin(Protocol):
    """The record that dies."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def timestamp(self) -> int:
        """Its timestamp, ms."""

    @property
    def headers(self) -> Sequence[Header]:
        """Its headers."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a record dies: the stage, the reason's name, and a text without personal data."""

    stage: str
    reason: str
    message: str
    event_id: str | None = None
    attempt: int | None = None
    job_id: str | None = None


def dead_headers(origin: Origin, cause: Cause, now_ms: int) -> list[Header]:
    """The headers of a dead letter: the original's, then ours; what names the first death is kept."""
    ours: dict[str, bytes] = {
        "stage": cause.stage.encode(),
        "reason": cause.reason.encode(),
        "first-failed-at": str(now_ms).encode(),
        "kafka_dlt-original-topic": origin.topic.encode(),
        "kafka_dlt-original-partition": str(origin.partition).encode(),
        "kafka_dlt-original-offset": str(origin.offset).encode(),
        "kafka_dlt-original-timestamp": str(origin.timestamp).encode(),
        "kafka_dlt-exception-fqcn": f"rajada.{cause.reason}".encode(),
        "kafka_dlt-exception-message": _cut(cause.message.encode(), MESSAGE_BYTES),
    }
    if cause.event_id is not None:
        ours["event-id"] = cause.event_id.encode()
    if cause.job_id is not None:
        ours["job-id"] = cause.job_id.encode()
    if cause.attempt is not None:
        ours["attempt"] = str(cause.attempt).encode()
    had = {name for name, _ in origin.headers}
    kept = [
        (name, _cut(value, TRACE_BYTES) if value is not None and "stacktrace" in name else value)
        for name, value in origin.headers
        if name not in ours or name in _ONCE
    ]
    return [*kept, *((name, value) for name, value in ours.items() if not (name in _ONCE and name in had))]


def fitting(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> tuple[bytes | None, bytes | None, list[Header]]:
    """A letter as its topic takes it: whole, as long as it is not larger than that.

    A source topic takes larger records than its limit from whoever compresses them. Such a letter goes
    without its value: it says where the record lies until retention. Refused, it would end every worker that
    reads it.
    """
    size = len(key or b"") + len(value or b"") + _bytes(headers)
    if size <= LARGEST_LETTER:
        return key, value, headers
    headers = [*headers, (LEFT_OUT, b"%d" % len(value or b""))]
    if len(key or b"") + _bytes(headers) <= LARGEST_LETTER:
        return key, None, headers
    ours = {*_ONCE, *_OF_ONE_DEATH, REPLAY, REPLAYS, LEFT_OUT}
    return None, None, [(name, _cut(given or b"", TRACE_BYTES)) for name, given in headers if name in ours]


def _bytes(headers: Sequence[Header]) -> int:
    """Of headers, and roughly of what stands around them."""
    return sum(len(name.encode()) + len(value or b"") + 10 for name, value in headers)


def without_death(headers: Sequence[Header]) -> list[Header]:
    """The headers of a letter as its record is sent again with: how it died is told anew if it dies again.

    Where it came from at first stays; `rekeyed` goes, so that it may be put under its right key once more,
    and `unknown-since`, so that it has another hour if nobody knows its schema yet.
    """
    return [(name, value) for name, value in headers if name not in _OF_ONE_DEATH]


def replays_of(headers: Sequence[Header]) -> int:
    """How often a record was requeued; 0 when it never was, or the header is no number."""
    for name, value in headers:
        if name == REPLAYS and value is not None and value.isdigit() and len(value) <= _DIGITS:
            return int(value)
    return 0


def resting_place(headers: Sequence[Header]) -> str:
    """The topic (name without prefix) that a record with these headers is buried in."""
    return PARKING if replays_of(headers) >= MOST_REPLAYS else DEAD


def _cut(text: bytes, budget: int) -> bytes:
    """The beginning of a text, without half a character at its end."""
    return text if len(text) <= budget else text[:budget].decode(errors="ignore").encode()
