"""What a trace is told of outcomes that stand in Postgres: the end of each job's trace."""

from __future__ import annotations

from collections.abc import Iterable

from sinks.batch import Taken
from telemetry.tracing import Written, traces


def tell_written(taken: Iterable[Taken], since_ms: int, until_ms: int) -> None:
    """These records were written by a transaction that lasted from then to then (Unix ms).

    Each that tells of a job is a span of that job's trace: the one that the record's `traceparent` names. An
    event that became no job has no trace; `rajada why` tells of it.
    """
    listening = traces()
    if not listening.on:
        return
    for one in taken:
        if one.outcome is None or one.record is None or one.outcome.job_id is None:
            continue
        told = Written(one.outcome.stage, one.outcome.job_status, one.record.partition, one.record.offset)
        listening.written(one.outcome.job_id, one.record.headers, told, since_ms, until_ms)
