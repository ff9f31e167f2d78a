"""Dead letters: the original record as it was, with headers that say why (spec/jobs.md, Dead letters).

Ours are named plainly; those that start with `kafka_dlt-` are the ones other people's tools read. Each
is written once: a record that dies again keeps its first origin. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

Header = tuple[str, bytes | None]

MESSAGE_BYTES: Final = 1_000
"""Budget of the error text in a header."""

_ONCE: Final = frozenset(
    {
        "first-failed-at",
        "kafka_dlt-original-topic",
        "kafka_dlt-original-partition",
        "kafka_dlt-original-offset",
        "kafka_dlt-original-timestamp",
    }
)


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
        "kafka_dlt-exception-message": cause.message.encode()[:MESSAGE_BYTES],
    }
    if cause.event_id is not None:
        ours["event-id"] = cause.event_id.encode()
    if cause.job_id is not None:
        ours["job-id"] = cause.job_id.encode()
    if cause.attempt is not None:
        ours["attempt"] = str(cause.attempt).encode()
    had = {name for name, _ in origin.headers}
    kept = [(name, value) for name, value in origin.headers if name not in ours or name in _ONCE]
    return [*kept, *((name, value) for name, value in ours.items() if not (name in _ONCE and name in had))]
