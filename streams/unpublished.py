"""What is told of an event that is too large to be published: it is dead, and somebody is alerted (pure).

The publisher has put its record into the dead letters; nobody further down the way ever sees it, so the
publisher itself sends the outcome (spec/dispatch.md: never in silence).
"""

from __future__ import annotations

from typing import Final

import msgspec

from db.publisher import TOO_LARGE, EventRecord
from schemas import alert_texts
from schemas.codec import encode_outcome
from schemas.records import EventOutcome, Outcome
from settings import Language
from streams.events import EVENT_TYPE
from streams.identifiers import canonical_uuid

STAGE: Final = "publish"


class _Row(msgspec.Struct):
    organization_id: str
    attempts: int = 0
    outcome_replay: int | None = None
    outcome_seq: int | None = None


_row = msgspec.json.Decoder(_Row)


def outcome_of_too_large(record: EventRecord, at_ms: int, language: Language = alert_texts.DEFAULT) -> bytes:
    """The outcome, encoded, of an event whose record is above its topic's limit.

    Args:
        record: as it would have been published.
        at_ms: when it was given up, Unix milliseconds.
        language: of the alert's words.
    """
    why = f"{len(record.value)} bytes, above the topic's max.message.bytes"
    row = _row.decode(record.value)
    contact_id = canonical_uuid(record.key.decode().partition(":")[2])
    is_message = record.event_type == EVENT_TYPE
    outcome = Outcome(
        organization_id=row.organization_id,
        contact_id=contact_id if is_message and contact_id != record.event_id else None,
        at_ms=at_ms,
        stage=STAGE,
        events=(
            EventOutcome(
                event_id=record.event_id,
                replay=row.outcome_replay or 0,
                seq=(row.outcome_seq or 0) + 1,
                attempts=row.attempts,
            ),
        ),
        status="dead",
        outcome=TOO_LARGE,
        last_error=why,
        alert=alert_texts.event_dead(
            record.event_type, TOO_LARGE, row.attempts, record.event_id, why, language
        ),
    )
    return encode_outcome(outcome)
