"""From a group link's row to the command that asks whether anybody knows its job. Pure.

Rule: spec/group_link.md, "A row in `processing` for 10 minutes gets a `recover` command".
"""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct

from schemas.codec import encode_command, encode_job
from schemas.kinds import GROUP_LINK
from schemas.records import Command, EventRef, Job

RECOVERIES: Final = UUID("7b0e8a54-9f06-5a38-8d6b-2f1f2d1e6c90")
"""Namespace of the ids of these commands: one that is given twice of one row is carried out once."""


ENQUEUED_SEQ: Final = 2
"""Of the outcome that an event's job is told with (`streams.group_links`)."""


class QueueRow(Struct, frozen=True, gc=False):
    """A row as `group_links_stuck.sql` and `group_link_row.sql` give it."""

    id: str
    organization_id: str
    event_id: str
    enrolment_id: str
    flow: str
    phone: str
    student_name: str
    group_link: str
    template_name: str
    template_language: str
    attempts: int
    max_attempts: int
    created_ms: int
    available_ms: int
    replay: int
    seq: int


def recovery_of(row: QueueRow, now_ms: int) -> tuple[bytes, bytes]:
    """Key and value of the record of `dispatch.control`."""
    command = Command(
        id=str(uuid5(RECOVERIES, f"{row.id}:{row.replay}:{row.seq}")),
        at_ms=now_ms,
        action="recover",
        organization_id=row.organization_id,
        job_id=row.id,
        reason="its row says for too long that it is being sent",
        issued_by="sink",
        job=encode_job(_job(row)),
    )
    return _key(row), encode_command(command)


def settlement_of(row: QueueRow, message_id: str, order_id: str, by: str, now_ms: int) -> tuple[bytes, bytes]:
    """Key and value of the order to end a group link whose message has reached the person by another way.

    Args:
        row: as it stands.
        message_id: the provider's, of that other message.
        order_id: UUID of the order; the same again is carried out once.
        by: who orders it; no secret.
        now_ms: Unix ms.
    """
    command = Command(
        id=order_id,
        at_ms=now_ms,
        action="settle",
        organization_id=row.organization_id,
        job_id=row.id,
        reason=message_id,
        issued_by=by,
        # the outcome of the event that asked for it may not be in the row yet
        job=encode_job(msgspec.structs.replace(_job(row), seq=max(row.seq, ENQUEUED_SEQ))),
    )
    return _key(row), encode_command(command)


def _key(row: QueueRow) -> bytes:
    return f"{row.organization_id}:{row.phone}".encode()


def _job(row: QueueRow) -> Job:
    payload = {
        "enrolment_id": row.enrolment_id,
        "flow": row.flow,
        "phone": row.phone,
        "student_name": row.student_name,
        "group_link": row.group_link,
        "template_name": row.template_name,
        "template_language": row.template_language,
    }
    return Job(
        id=row.id,
        organization_id=row.organization_id,
        contact_id=None,
        kind=GROUP_LINK,
        source_event_id=row.event_id,
        replay=row.replay,
        seq=row.seq,
        attempt=row.attempts,
        max_attempts=row.max_attempts,
        created_at_ms=row.created_ms,
        run_after_ms=row.available_ms,
        payload=msgspec.json.encode(payload).decode(),
        events=(EventRef(row.event_id, row.replay),),
    )
