"""What a publisher of the event log guarantees, and the record it makes of a row.

Whoever publishes (Debezium on Kafka Connect, or our relay in `db.relay`) gives:

1. every row that was inserted with a published event type and status `pending`, and committed; no
   rolled-back row, no update, no other type;
2. each at least once: after a crash some come again, with the same event id;
3. per key, and so per contact, in the order of the commits; within a transaction as written;
4. the commit time of the transaction in the header `cdc_source_ts_ms` (Unix milliseconds);
5. the key of spec/dispatch.md step 1, murmur2 over it for the partition, and the row as flat JSON.

The shape of the record is pure and held to what Debezium's chain produced (facts: "What arrives").
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import orjson

from db.column_values import JsonValue, Reader, reader
from db.pgoutput import Column
from schemas.topic_names import GROUP_LINKS, SOURCE
from settings import RajadaError

EVENT_TYPES: Final = (SOURCE, GROUP_LINKS)
"""The published event types; each goes to the topic of the same name."""

TOO_LARGE: Final = "record_too_large"
"""Why an event is dead whose record is above its topic's limit."""

Header = tuple[str, bytes]
Operation = Literal["c", "r"]
"""`c`: from the log of changes; `r`: read from the table (back-fill)."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_E164: Final = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII)


class Publisher(Protocol):
    """A process that publishes; the guarantees are those of this module."""

    def run(self, stop: threading.Event) -> None:
        """Publishes until `stop` is set; failures of Postgres and Kafka are waited out."""


class UnfitRelation(RajadaError):
    """The published table lacks a column that a record needs; the message names it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a row was read: its position in the WAL, and the commit time in Unix milliseconds."""

    lsn: int
    commit_ms: int
    operation: Operation = "c"


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One record as it goes to Kafka; the topic is `settings.topic(event_type)`."""

    event_type: str
    event_id: str
    key: bytes
    value: bytes
    headers: list[Header]


class RowShape:
    """Turns the rows of one relation, as text values in the order of its columns, into records.

    Made once for each Relation message (a changed table sends a new one).
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._readers: list[tuple[str, Reader]] = [(c.name, reader(c.type_oid, c.typmod)) for c in columns]
        positions = {column.name: at for at, column in enumerate(columns)}
        missing = [
            n for n in ("id", "organization_id", "event_type", "status", "payload") if n not in positions
        ]
        if missing:
            raise UnfitRelation(
                f"the event log's replication stream has no column {', '.join(missing)}: "
                "publish the whole table, without a column list"
            )
        self._event_type = positions["event_type"]
        self._status = positions["status"]

    def is_published(self, values: Sequence[bytes | None]) -> bool:
        """Whether the row is of a published type and pending; the publication may have no filter."""
        event_type = values[self._event_type]
        return values[self._status] == _PENDING and event_type in _EVENT_TYPES_BYTES

    def record(self, values: Sequence[bytes | None], origin: Origin) -> EventRecord:
        """The record of a row."""
        row: dict[str, JsonValue] = {
            # A database in SQL_ASCII may hold bytes that are no UTF-8: one such row must not stop the rest.
            name: None if raw is None else read(raw.decode(errors="replace"))
            for (name, read), raw in zip(self._readers, values, strict=True)
        }
        event_id, event_type = str(row["id"]), str(row["event_type"])
        key = row.get("partition_key") or partition_key(
            row["organization_id"], event_type, event_id, row["payload"]
        )
        headers = [
            ("cdc_op", origin.operation.encode()),
            ("cdc_source_lsn", b"%d" % origin.lsn),
            ("cdc_source_ts_ms", b"%d" % origin.commit_ms),
            ("event_id", event_id.encode()),
            ("event_type", event_type.encode()),
        ]
        return EventRecord(event_type, event_id, str(key).encode(), orjson.dumps(row), headers)


def partition_key(organization: object, event_type: str, event_id: str, payload: object) -> str:
    """The key of a row that has none (inserted before the trigger); the same rule as the trigger's.

    Rule: spec/dispatch.md, step 1; in SQL `rajada.partition_key`.

    Args:
        organization: organization_id of the row, None when it has none.
        event_type: the row's event type.
        event_id: the row's id.
        payload: the payload's JSON text.
    """
    last = event_id.lower()
    content = _object(payload)
    if event_type.startswith("ai_agent."):
        contact = content.get("contact_id")
        if isinstance(contact, str) and _UUID.fullmatch(contact):
            last = contact.lower()
    elif event_type.startswith("group_link."):
        phone = content.get("phone")
        if isinstance(phone, str) and _E164.fullmatch(phone):
            last = phone
    return f"{'' if organization is None else str(organization).lower()}:{last}"


def _object(payload: object) -> dict[str, object]:
    if not isinstance(payload, str):
        return {}
    try:
        # Numbers of any size are legal in jsonb; here they are only passed over.
        content = json.loads(payload, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


_PENDING: Final = b"pending"
_EVENT_TYPES_BYTES: Final = frozenset(event_type.encode() for event_type in EVENT_TYPES)
