"""What a trace is told of a record that lay in a delay topic (pure)."""

from __future__ import annotations

from functools import partial

from schemas.errors import Undecodable
from streams.delays.records import Record
from streams.job_bounds import read_job
from telemetry.tracing import traces


def tell_wait(record: Record, now_ms: int) -> None:
    """It has left its topic at `now_ms` of Kafka's clock; its topic's timestamps are of the same clock."""
    traces().waited(partial(_job_id, record.value), record.headers, record.topic, record.timestamp, now_ms)


def _job_id(value: bytes | None) -> str | None:
    try:
        return read_job(value or b"").id
    except Undecodable:
        return None
