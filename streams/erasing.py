"""A dead letter without its content: what is left of it when its contact is forgotten (pure).

That something died, when, where and why stays; what it was about does not: key, value and the headers of
others go.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from schemas.dead import COPIED_FROM, REPLAY, REPLAYS
from schemas.records import Job
from streams.letters import ERASED, Letter
from streams.requeueing import Copy

_KEPT: Final = frozenset(
    {
        *("stage", "reason", "event-id", "job-id", "attempt", "first-failed-at", REPLAY, REPLAYS),
        *("kafka_dlt-original-topic", "kafka_dlt-original-partition", "kafka_dlt-original-offset"),
        *("kafka_dlt-original-timestamp", "kafka_dlt-exception-fqcn"),
    }
)
_KEPT_OF_A_ROW: Final = ("id", "organization_id", "event_type", "created_at")


def needles(contact_id: str | None, phone: str | None) -> list[bytes]:
    """What a record that is about a contact holds somewhere: its id, or its phone without signs."""
    found = [contact_id.lower().encode()] if contact_id else []
    digits = "".join(sign for sign in phone or "" if sign.isdigit())
    if len(digits) >= LEAST_DIGITS:
        found.append(digits.encode())
    return found


LEAST_DIGITS: Final = 8
"""Fewer digits are no phone, and would be found in other people's records."""


def is_about(letter: Letter, wanted: Collection[bytes]) -> bool:
    """Whether a letter's bytes name one of these anywhere, also where nobody can read the rest."""
    parts = (letter.key, letter.value, *(value for _, value in letter.headers))
    return any(one in part.lower() for part in parts if part is not None for one in wanted)


def is_erased(letter: Letter) -> bool:
    """Whether nothing is left of it to be erased."""
    return ERASED in letter.told


def erased(letter: Letter, source: str) -> Copy:
    """What replaces a letter; `source` is its place, for the copy's header."""
    kept = [one for one in letter.headers if one[0] in _KEPT]
    name = letter.about
    organization_id = letter.organization_id
    key = f"{organization_id}:{name}".encode() if organization_id and name else None
    return Copy(
        letter.place.topic,
        key,
        _without_content(letter),
        [*kept, (ERASED, b"1"), (COPIED_FROM, source.encode())],
        letter.at_ms,
    )


def _without_content(letter: Letter) -> bytes | None:
    record = letter.content.record
    if isinstance(record, Job):
        told: dict[str, object] = {
            "id": record.id,
            "organization_id": record.organization_id,
            "kind": record.kind,
            "created_at_ms": record.created_at_ms,
        }
    elif isinstance(record, dict):
        told = {name: record[name] for name in _KEPT_OF_A_ROW if name in record}
    else:
        return None
    return msgspec.json.encode(told)
