"""From a group-link event to its job (spec/group_link.md). Pure.

The event's row is written beside the queue's row, in one transaction; the job has the queue row's id. An
event without a usable job id can't be told to anybody: it is discarded, counted and logged.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from schemas.kinds import GROUP_LINK
from schemas.records import EventOutcome, EventRef, Job, Outcome
from schemas.topic_names import GROUP_LINKS
from streams.events import Headers, InvalidPayload, Unreadable, read_marks, read_payload, read_row
from streams.identifiers import canonical_row_id

STAGE: Final = "enqueue"
DEFAULT_ATTEMPTS: Final = 5
MOST_ATTEMPTS: Final = 100
_E164: Final = re.compile(r"\+[1-9][0-9]{6,14}")


class GroupLink(msgspec.Struct, forbid_unknown_fields=False):
    """The payload of an event: what is to be sent to whom, and when."""

    job_id: str
    """Id of the row in `group_link_dispatch_queue`: UUIDv5 of organization and enrolment."""
    enrolment_id: str
    flow: str
    phone: str
    """E.164."""
    group_link: str
    template_name: str
    template_language: str
    student_name: str = ""
    max_attempts: int = DEFAULT_ATTEMPTS
    available_at_ms: int = 0
    """Unix ms; not sent before."""


class GroupLinkEvent(msgspec.Struct, frozen=True):
    """One event, with the job that it asks for."""

    key: bytes
    """`organization_id:phone`."""
    event_id: str
    job: Job
    replay: int = 0
    attempts: int = 0


def read_group_link(
    value: bytes | None, headers: Headers, now_ms: int
) -> GroupLinkEvent | InvalidPayload | Unreadable:
    """What a record of `group_link.dispatch_requested` says; never raises."""
    found = read_row(value, GROUP_LINKS)
    if isinstance(found, Unreadable):
        return found
    event_id, organization_id, row = found
    replay, attempts = read_marks(headers).replay, row.attempts_so_far
    payload = read_payload(row.payload)
    asked = _asked(payload) if isinstance(payload, dict) else payload
    if isinstance(asked, str):
        return InvalidPayload(event_id, organization_id, replay, attempts, asked)
    return GroupLinkEvent(
        f"{organization_id}:{asked.phone}".encode(),
        event_id,
        _job(asked, organization_id, event_id, replay, now_ms),
        replay,
        attempts,
    )


def _asked(payload: dict[str, object]) -> GroupLink | str:
    """The typed payload, or what is wrong with it; no content."""
    try:
        asked = msgspec.convert(payload, GroupLink)
    except msgspec.ValidationError as error:
        return f"payload: {error}".split(" - at", 1)[0] + _where(error)
    job_id = canonical_row_id(asked.job_id)
    if job_id is None:
        return "payload: job_id is no uuid"
    if _E164.fullmatch(asked.phone) is None:
        return "payload: phone is not E.164"
    asked.job_id = job_id
    return asked


def _where(error: msgspec.ValidationError) -> str:
    _, found, where = str(error).partition(" - at ")
    return f" at {where}" if found else ""


def _job(asked: GroupLink, organization_id: str, event_id: str, replay: int, now_ms: int) -> Job:
    payload = {
        "enrolment_id": asked.enrolment_id,
        "flow": asked.flow,
        "phone": asked.phone,
        "student_name": asked.student_name,
        "group_link": asked.group_link,
        "template_name": asked.template_name,
        "template_language": asked.template_language,
    }
    return Job(
        id=asked.job_id,
        organization_id=organization_id,
        contact_id=None,
        kind=GROUP_LINK,
        source_event_id=event_id,
        replay=replay,
        seq=2,
        max_attempts=min(max(asked.max_attempts, 1), MOST_ATTEMPTS),
        created_at_ms=now_ms,
        run_after_ms=max(asked.available_at_ms, now_ms),
        payload=msgspec.json.encode(payload).decode(),
        events=(EventRef(event_id, replay),),
    )


def enqueued(event: GroupLinkEvent, now_ms: int) -> Outcome:
    """The event is done: its job is in the delay topics, or among the jobs."""
    return Outcome(
        organization_id=event.job.organization_id,
        at_ms=now_ms,
        stage=STAGE,
        events=(
            EventOutcome(event_id=event.event_id, replay=event.replay, seq=1, attempts=event.attempts + 1),
        ),
        status="done",
        outcome="job",
        job_id=event.job.id,
        next_attempt_at_ms=event.job.run_after_ms if event.job.run_after_ms > now_ms else None,
        job=event.job,
        job_status="pending",
    )
