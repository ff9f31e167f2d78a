"""Where a record that leaves a delay topic goes, and what becomes of one that can't be forwarded (pure).

Nothing waits for a record that can't go on: it goes to the dead letters with its bytes, in the same
transaction, and whoever its job belongs to is told.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from schemas import alert_texts
from schemas.codec import encode_outcome
from schemas.dead import LEFT_OUT, Cause, dead_headers, resting_place
from schemas.delayed import FORWARD_TO, FORWARDED, goes_to
from schemas.errors import Undecodable
from schemas.records import Alert, Job, Outcome
from schemas.topic_names import JOBS, OUTCOMES
from settings import Language
from streams.delays.queues import Held
from streams.delays.records import Record, Send
from streams.due import DUE_AT, next_hop
from streams.job_bounds import read_job

STAGE: Final = "delays"
NO_DUE_TIME: Final = "due_at_unreadable"
NO_WAY: Final = "forward_to_unreadable"
TOO_LARGE: Final = "too_large_to_delay"


class Trouble(IntEnum):
    """What a topic's refusal has taught about a record; each refusal goes one step further."""

    NONE = 0
    SUSPECT = 1
    """It was refused together with others: tried alone."""
    UNWRITABLE = 2
    """Refused alone: to the dead letters."""
    UNTELLABLE = 3
    """Refused again: the outcome, which carries the job once more, goes without it."""
    UNBURIABLE = 4
    """And again: the letter goes without the value; it says where the record lies until retention."""


def sends_of(
    held: Held, now_ms: float, trouble: Trouble = Trouble.NONE, language: Language = alert_texts.DEFAULT
) -> list[Send]:
    """What is written for a record that leaves its topic at `now_ms` of Kafka's clock: a hop, or its end."""
    record = held.record
    if held.due_ms is None:
        return _burial(record, NO_DUE_TIME, _why_no_time(record), now_ms, trouble, language)
    if trouble >= Trouble.UNWRITABLE:
        why = f"{record.size} bytes are more than max.message.bytes of the next topic"
        return _burial(record, TOO_LARGE, why, now_ms, trouble, language)
    to = goes_to(record.headers)
    if to is None:
        why = f"the header {FORWARD_TO} names none of {', '.join(FORWARDED)}"
        return _burial(record, NO_WAY, why, now_ms, trouble, language)
    # whole ms that have passed: a fraction of one must not make it early
    topic = next_hop(held.due_ms, int(now_ms))
    topic = to if topic == JOBS else topic
    return [Send(topic, record.partition, record.key, record.value, record.headers)]


def _burial(
    record: Record, reason: str, why: str, now_ms: float, trouble: Trouble, language: Language
) -> list[Send]:
    job = _job(record)
    cause = Cause(STAGE, reason, why, job_id=job.id if job else None, attempt=job.attempt if job else None)
    headers = dead_headers(record, cause, int(now_ms))
    value = record.value
    if trouble is Trouble.UNBURIABLE:
        headers.append((LEFT_OUT, b"%d" % len(value or b"")))
        value = None
    letter = Send(resting_place(record.headers), record.partition, record.key, value, headers)
    told = _told(record, job, cause, int(now_ms), trouble, language)
    return [letter, told]


def _told(
    record: Record, job: Job | None, cause: Cause, now_ms: int, trouble: Trouble, language: Language
) -> Send:
    """The outcome: the job's death with its alert, or an alert of the platform's for what names no job."""
    place = f"{record.topic} [{record.partition}] offset {record.offset}"
    whole = None
    if job is not None and trouble < Trouble.UNTELLABLE:
        # above the head's own number: nothing else of this job is on its way
        whole = msgspec.structs.replace(job, seq=job.seq + 1)
    told = Outcome(
        organization_id=job.organization_id if job else alert_texts.PLATFORM,
        contact_id=job.contact_id if job else None,
        at_ms=now_ms,
        stage=STAGE,
        events=(),
        status="done" if job else "dead",
        outcome=f"dead:{cause.reason}",
        job_id=job.id if job else None,
        last_error=cause.message,
        facts=msgspec.json.encode(
            {"record": {"topic": record.topic, "partition": record.partition, "offset": record.offset}}
        ).decode(),
        job=whole,
        job_status="dead" if whole else None,
        alert=_alert(job, cause, place, language),
    )
    return Send(OUTCOMES, record.partition, record.key, encode_outcome(told), ())


def _alert(job: Job | None, cause: Cause, place: str, language: Language) -> Alert:
    if job is not None:
        return alert_texts.job_dead(job, cause.message, language)
    return alert_texts.event_unreadable(cause.reason, place, cause.message, language)


def _job(record: Record) -> Job | None:
    try:
        return read_job(record.value or b"")
    except Undecodable:
        return None


def _why_no_time(record: Record) -> str:
    if not record.readable:
        return "the names of the record's headers are no text"
    if any(name == DUE_AT for name, _ in record.headers):
        return f"the header {DUE_AT} is no decimal number of Unix ms"
    return f"the record has no header {DUE_AT}"
