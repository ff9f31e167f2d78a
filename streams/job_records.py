"""From a job's head to what is sent for it: outcomes, next records, dead letters (pure).

Everything is put into the head's `unsent` before it goes anywhere, as the bytes that will be sent: after a
crash the next owner sends the same again (spec/jobs.md, "Job heads").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from schemas.codec import encode_job, encode_outcome
from schemas.dead import Cause, Header, dead_headers, resting_place
from schemas.records import Alert, EventOutcome, EventRef, Job, Outcome
from schemas.topic_names import JOBS, OUTCOMES
from streams.due import delayed_record
from streams.heads import Head, Origin, Send, State
from telemetry.trace_ids import TRACEPARENT, parent_in

STAGE: Final = "execute"
CONTROL_STAGE: Final = "control"

_STATUS: Final = {
    State.UNVERIFIED: "pending",
    State.WAITING: "pending",
    State.RUNNING: "running",
    State.DELAYED: "pending",
    State.HELD: "held",
    State.DONE: "done",
    State.FAILED: "failed",
    State.DEAD: "dead",
}
"""How a head's state is told; an awaited job is told by its command alone."""


def tell(
    head: Head,
    job: Job,
    now_ms: int,
    outcome: str | None,
    *,
    facts: Mapping[str, object] | None = None,
    alert: Alert | None = None,
    result: Mapping[str, object] | None = None,
    moved: tuple[str, int, Sequence[EventRef]] | None = None,
    stage: str = STAGE,
) -> None:
    """Name the outcome of the transition that brought the head where it is.

    `moved`: the job that takes over the events, the seq that they get, and the events.
    """
    taken_by, event_seq, events = moved or (None, 0, ())
    told = Outcome(
        organization_id=job.organization_id,
        contact_id=job.contact_id,
        at_ms=now_ms,
        stage=stage,
        events=tuple(
            EventOutcome(event_id=event.event_id, replay=event.replay, seq=event_seq, attempts=1)
            for event in events
        ),
        status="done",
        # events that move keep the outcome which made their job; only the job is another one
        outcome="job" if taken_by else outcome,
        job_id=taken_by or job.id,
        last_error=head.last_error,
        next_attempt_at_ms=head.run_after_ms if head.state is State.DELAYED else None,
        facts=_json(facts),
        job=None if taken_by else job,
        job_status=None if taken_by else _STATUS[head.state],
        alert=alert,
        result=_json(result),
    )
    head.unsent.append(Send(OUTCOMES, encode_outcome(told), _trace_of(head)))


def tell_command(
    organization_id: str,
    contact_id: str | None,
    job_id: str | None,
    now_ms: int,
    outcome: str,
    facts: Mapping[str, object],
) -> Send:
    """What came of a command, for the trace alone."""
    told = Outcome(
        organization_id=organization_id,
        contact_id=contact_id,
        at_ms=now_ms,
        stage=CONTROL_STAGE,
        events=(),
        status="done",
        outcome=outcome,
        job_id=job_id,
        facts=_json(facts),
    )
    return Send(OUTCOMES, encode_outcome(told))


def send_later(key: bytes, head: Head, job: Job, now_ms: int) -> None:
    """Name the job's next record: into the delay topics until `run_after_ms`."""
    origin = head.origin
    headers: list[Header] = list(origin.headers) if origin is not None else []
    topic, (_, value, _, headers) = delayed_record(
        key,
        encode_job(job),
        headers,
        due_ms=head.run_after_ms,
        now_ms=now_ms,
        original_timestamp_ms=origin.timestamp if origin is not None else now_ms,
    )
    head.unsent.append(Send(topic, value, headers))


def bury(job_id: str, head: Head, reason: str, now_ms: int) -> None:
    """Name the dead letter: the job's record as it came, whatever has been retried since."""
    origin = head.origin or Origin(JOBS, -1, -1, now_ms)
    cause = Cause(STAGE, reason, head.last_error or reason, attempt=head.attempt, job_id=job_id)
    if head.first_failed_ms:
        first: Header = ("first-failed-at", str(head.first_failed_ms).encode())
        kept = [header for header in origin.headers if header[0] != first[0]]
        origin = msgspec.structs.replace(origin, headers=[*kept, first])
    headers = dead_headers(origin, cause, now_ms)
    head.unsent.append(Send(resting_place(headers), head.job, headers))


def take_events_in(survivor: Head, taken: Sequence[tuple[str, Head]]) -> None:
    """Put the events of older jobs before the survivor's own, in the job and in its payload."""
    job = survivor.whole()
    events: dict[EventRef, None] = {}
    for _, head in taken:
        events.update(dict.fromkeys(head.whole().events))
    events.update(dict.fromkeys(job.events))
    # other members stay as they are written: a number may be larger than any that can be decoded
    payload = msgspec.json.decode(job.payload, type=dict[str, msgspec.Raw])
    payload["event_ids"] = _raw([event.event_id for event in events])
    replays = {event.event_id: event.replay for event in events if event.replay}
    if replays:
        payload["event_replays"] = _raw(replays)
    merged = msgspec.structs.replace(job, events=tuple(events), payload=msgspec.json.encode(payload).decode())
    survivor.job = encode_job(merged)


def _trace_of(head: Head) -> list[Header] | None:
    """The one `traceparent` of the job's record, if it has any: who writes the outcome goes on in it."""
    parent = parent_in(head.origin.headers) if head.origin is not None else None
    return None if parent is None else [(TRACEPARENT, parent.encode())]


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _json(value: Mapping[str, object] | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
