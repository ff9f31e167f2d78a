"""Records that end in the collecting stage: a dead letter, and an outcome with an alert (pure).

"Dead" is never silent (spec/dispatch.md): somebody is told, and `rajada why` finds the record. One that
names no event of its own is named by its place in the log, so that telling it twice is telling it once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid5

import msgspec

from schemas import alert_texts
from schemas.codec import encode_outcome
from schemas.dead import Cause, dead_headers, fitting, resting_place
from schemas.records import Alert, EventOutcome, Outcome
from settings import Language
from streams.events import EVENT_TYPE, Event
from streams.identifiers import JOB_NAMESPACE, NIL
from streams.ports import Item
from streams.transport import Record

_PLACES: Final = uuid5(JOB_NAMESPACE, "records by their place")


@dataclass(frozen=True, slots=True)
class Burial:
    """What is sent for a record that dies."""

    event_id: str
    letter: Item
    outcome: Item


def bury(
    record: Record,
    cause: Cause,
    event: Event | None,
    topic_id: str,
    now_ms: int,
    language: Language = alert_texts.DEFAULT,
) -> Burial:
    """The dead letter and the outcome of a record; `event` where it could be read.

    The outcome of a readable one has sequence number 0: whatever else comes of that event wins over it, since
    a hand-made copy under a wrong key says nothing of the original.
    """
    event_id = event.event_id if event else _named_by_place(record, topic_id)
    outcome = Outcome(
        organization_id=event.organization_id if event else NIL,
        contact_id=event.contact_id if event else None,
        at_ms=now_ms,
        stage=cause.stage,
        events=(
            EventOutcome(
                event_id=event_id,
                replay=event.replay if event else 0,
                seq=0,
                attempts=event.attempts if event else 0,
            ),
        ),
        status="dead",
        outcome=cause.reason,
        last_error=cause.message[:300],
        facts=_place(record),
        alert=_alert(record, cause, event, language),
    )
    headers = dead_headers(record, replace(cause, event_id=event_id), now_ms)
    key = event.key if event else f"{NIL}:{event_id}".encode()
    letter_key, value, headers = fitting(record.key, record.value, headers)
    return Burial(
        event_id,
        letter=(letter_key, value, -1, headers),
        outcome=(key, encode_outcome(outcome), -1, None),
    )


def graves(letters: Iterable[Item]) -> Mapping[str, list[Item]]:
    """Letters by the topic (without prefix) that each belongs into: those replayed too often are parked."""
    by_topic: dict[str, list[Item]] = defaultdict(list)
    for letter in letters:
        by_topic[resting_place(letter[3] or ())].append(letter)
    return by_topic


def _named_by_place(record: Record, topic_id: str) -> str:
    return str(uuid5(_PLACES, f"{topic_id}/{record.topic}/{record.partition}/{record.offset}"))


def _place(record: Record) -> str:
    place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    return msgspec.json.encode({"record": place}).decode()


def _alert(record: Record, cause: Cause, event: Event | None, language: Language) -> Alert:
    where = f"{record.topic} [{record.partition}] offset {record.offset}"
    if event is None:
        return alert_texts.event_unreadable(cause.reason, where, cause.message, language)
    return alert_texts.event_dead(
        EVENT_TYPE,
        cause.reason,
        event.attempts,
        event.event_id,
        cause.message,
        language,
        certain=False,
        place=where,
    )
