"""The record that a row of the event log travels in, for those who produce it by hand (pure).

Field for field what the publisher makes of a row, so that the worker can't tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import orjson

from db.publisher import partition_key
from ops.event_lines import EventLine

Header = tuple[str, str | bytes | None]


def record_of(
    row: EventLine, created_ms: int, headers: Mapping[str, bytes] | None = None
) -> tuple[bytes, bytes, list[Header]]:
    """Key, value and headers of a row, `created_ms` (ms since the epoch) being when it was made.

    `headers` are added to the usual ones: a row that was never committed has no commit time to tell.
    """
    key = partition_key(row.organization_id, row.event_type, row.id, row.payload)
    created_at = datetime.fromtimestamp(created_ms / 1000, UTC).isoformat(timespec="microseconds")
    value: dict[str, object] = {
        "id": row.id,
        "organization_id": row.organization_id,
        "event_type": row.event_type,
        "entity_kind": row.entity_kind,
        "entity_id": row.entity_id,
        "payload": row.payload,
        "metadata": row.metadata,
        "consumed_by": [],
        "attempts": 0,
        "last_error": None,
        "next_attempt_at": None,
        "status": "pending",
        "created_at": created_at.replace("+00:00", "Z"),
        "partition_key": key,
    }
    marks: list[Header] = [("event_id", row.id.encode()), ("event_type", row.event_type.encode())]
    return key.encode(), orjson.dumps(value), [*(headers or {}).items(), *marks]
