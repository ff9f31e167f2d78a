"""Whether Debezium publishes the event log: its connectors on Kafka Connect, and their slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg

from db.heartbeats import heartbeats
from db.replication import Connection, SlotStatus, slot_status
from ops.cdc.condition import Seen
from ops.cdc.connectors import Connectors
from ops.cdc.files import connectors
from ops.cdc.rest import Connect, ConnectAway
from ops.doctor.findings import Verdict, fail, ok, warn
from ops.endpoints import connect_of, database_of
from settings import Settings

_ANSWER_S: Final = 10.0
MB: Final = 1 << 20


def debezium_publishes(connection: Connection, settings: Settings) -> bool:
    """Whether it does, or shall: it is set, or connectors were registered here."""
    if settings.publisher == "debezium":
        return True
    try:
        return bool(heartbeats(connection))
    except psycopg.errors.UndefinedTable:
        return False


def connector_verdicts(connection: Connection, settings: Settings) -> list[Verdict]:
    """How each connector fares, and whether the relay's slot is still there beside them."""
    url, slot = database_of(settings), slot_status(connection, settings.slot)
    try:
        with Connect(connect_of(settings), _ANSWER_S) as connect:
            told = [verdict(one) for one in Connectors(connectors(settings, url), connect, url).status()]
    except ConnectAway as error:
        return [away(error, slot)]
    return [*told, *beside(settings.slot, slot)]


def away(error: ConnectAway, relays: SlotStatus | None) -> Verdict:
    """What it means that Kafka Connect does not answer; `relays`: the relay's slot (pure)."""
    if relays is None or not relays.active:
        return fail("Kafka Connect is away: no event is published", str(error))
    return warn(
        "the relay publishes, but connectors were registered and Kafka Connect is away: WAL is kept for them",
        "`rajada connector remove --without-connect`, if Debezium is not to come back",
    )


def verdict(seen: Seen) -> Verdict:
    """What is said of one connector (pure)."""
    if seen.trouble is not None:
        return fail(f"{seen.name} {seen.trouble.found}", seen.trouble.advice)
    behind = f"{seen.slot.lag_bytes / MB:.1f} MB behind" if seen.slot is not None else ""
    alive = f", last sign of life {seen.silent_s:.0f} s ago" if seen.silent_s is not None else ""
    return ok(f"{seen.name} runs, {behind}{alive}")


def beside(name: str, slot: SlotStatus | None) -> Sequence[Verdict]:
    """The relay's slot, which nobody needs where Debezium publishes (pure)."""
    if slot is None:
        return []
    if slot.active:
        return [
            warn(
                f"the relay publishes, too ({name} is read): every record comes twice",
                "stop the relay, or `rajada connector remove`",
            )
        ]
    return [
        warn(
            f"the relay's slot {name} is there, nobody reads it, and WAL is kept for it",
            f"if Debezium publishes from now on: SELECT pg_drop_replication_slot('{name}')",
        )
    ]
