"""Whether changes can be read from Postgres: the server, our role, publication, slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, cast

from db.plan import TRIGGER
from db.publisher import EVENT_TYPES
from db.queries import load
from db.replication import PLUGIN, TABLE, Connection, SlotStatus, slot_status
from ops.doctor.connectors import connector_verdicts, debezium_publishes
from ops.doctor.findings import Check, Verdict, fail, ok, warn
from settings import Settings

MB: Final = 1 << 20
MUCH_WAL: Final = 1024 * MB
"""WAL kept for the slot that is worth a warning."""
HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Server:
    """What `doctor_server.sql` tells."""

    wal_level: str
    in_recovery: bool
    max_slots: int
    used_slots: int
    max_senders: int
    used_senders: int
    slot_keep_mb: int
    """How much WAL a slot may keep; -1 = without bound."""
    role: str
    may_replicate: bool
    other: str | None = None
    """Another role that may, and reads the log: the relay's own, where each process has one."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What `doctor_publication.sql` tells of the event log."""

    inserts: bool
    has_table: bool
    row_filter: str | None
    whole_rows: bool


def replication_checks(connection: Connection, settings: Settings) -> dict[str, Check]:
    """The checks, by name."""

    @cache
    def server() -> Server:
        row = connection.execute(load("doctor_server")).fetchone()
        return Server(*cast("tuple[str, bool, int, int, int, int, int, str, bool, str | None]", row))

    @cache
    def slot() -> SlotStatus | None:
        return slot_status(connection, settings.slot)

    if debezium_publishes(connection, settings):
        return {
            "wal_level": lambda: wal_level(server()),
            "role": lambda: role(server(), has_slot=True),
            "connectors": lambda: connector_verdicts(connection, settings),
        }
    return {
        "wal_level": lambda: wal_level(server()),
        "role": lambda: role(server(), has_slot=slot() is not None),
        "free slots": lambda: free_slots(server(), slot()),
        "publication": lambda: _publication(connection, settings),
        "slot": lambda: _slot(connection, settings, slot(), server()),
    }


def wal_level(server: Server) -> Verdict:
    """Changes are decoded with wal_level = logical only, and slots are made on the primary."""
    if server.in_recovery:
        return fail(
            "this server is a standby", "point DATABASE_URL at the primary: the sink and the slot must write"
        )
    if server.wal_level != "logical":
        return fail(
            f"wal_level is {server.wal_level}",
            "ALTER SYSTEM SET wal_level = 'logical' as a superuser, then restart Postgres (a hosted one has "
            "a switch for logical replication)",
        )
    return ok("logical")


def role(server: Server, *, has_slot: bool) -> Verdict:
    """The relay reads with a role that may replicate."""
    if server.may_replicate:
        return ok(f"{server.role} may replicate")
    if server.other is not None:
        return ok(f"{server.other} may replicate; {server.role} need not")
    doing = "read its slot" if has_slot else "make its slot"
    return fail(
        f"{server.role} may not replicate", f"ALTER ROLE {server.role} REPLICATION: the relay can't {doing}"
    )


def free_slots(server: Server, slot: SlotStatus | None) -> Verdict:
    """Room for our slot and its connection, where they aren't there yet."""
    slots, senders = server.max_slots - server.used_slots, server.max_senders - server.used_senders
    found = f"{slots} of {server.max_slots} slots and {senders} of {server.max_senders} WAL senders are free"
    if slot is None and slots < 1:
        return fail(
            found, "raise max_replication_slots, or drop a slot that nobody reads (pg_replication_slots)"
        )
    if (slot is None or not slot.active) and senders < 1:
        return fail(found, "raise max_wal_senders: the relay can't connect")
    return ok(found)


def _publication(connection: Connection, settings: Settings) -> Verdict:
    values = {"name": settings.publication, "table": TABLE}
    row = connection.execute(load("doctor_publication"), values).fetchone()
    found = None if row is None else Publication(*cast("tuple[bool, bool, str | None, bool]", row))
    columns = ["event_type", "status"]
    usable = connection.execute(load("filterable_columns"), {"table": TABLE, "columns": columns}).fetchall()
    log = connection.execute(load("doctor_event_log"), {"table": TABLE, "trigger": TRIGGER}).fetchone()
    may_make = log is not None and bool(log[3])
    return publication(settings.publication, found, [str(name) for (name,) in usable], may_make=may_make)


def publication(
    name: str, found: Publication | None, filterable: Sequence[str], *, may_make: bool = True
) -> Verdict:
    """Whether every pending event is published, and little else.

    Args:
        name: of the publication.
        found: as it is; None = there is none.
        filterable: which of event_type and status a row filter may look at (built-in types).
        may_make: whether our role could make it.
    """
    again = f"DROP PUBLICATION {name}; the relay makes it as it must be at its next start"
    if found is None and not may_make:
        return fail(
            f"there is no publication {name}, and our role can't make it",
            f"run `rajada roles relay --apply` as the owner of {TABLE} with CREATE on the database",
        )
    if found is None:
        return warn(f"there is no publication {name}", "the relay makes it at its first start")
    if not found.has_table or not found.inserts:
        what = "inserts" if found.has_table else "the event log"
        return fail(f"{name} does not publish {what}", f"{again}, or set RAJADA_PUBLICATION to another name")
    if not found.whole_rows:
        return fail(f"{name} leaves columns of the event log out", again)
    told = found.row_filter or ""
    if told and "event_type" in told and not all(event_type in told for event_type in EVENT_TYPES):
        left = [event_type for event_type in EVENT_TYPES if event_type not in told]
        return fail(f"{name} does not publish {', '.join(left)}", again)
    own = [column for column in ("event_type", "status") if column not in filterable]
    if own:
        kinds = " and ".join(own)
        return ok(f"{name}; {kinds} can't be in its filter (own types), the relay filters itself")
    if not told:
        return warn(f"{name} has no row filter: every insert travels and the relay drops most", again)
    return ok(f"{name}, filter on {' and '.join(c for c in filterable if c in told)}")


def _slot(connection: Connection, settings: Settings, slot: SlotStatus | None, server: Server) -> Verdict:
    made_before = connection.execute("SELECT to_regclass('rajada.relay') IS NOT NULL").fetchone() == (
        True,
    ) and bool(connection.execute(load("relay_state"), {"slot": settings.slot}).fetchone())
    others = connection.execute(load("doctor_slots"), {"slot": settings.slot}).fetchall()
    names = [str(name) for name, _ in others]
    database = connection.info.dbname
    return slot_verdict(settings.slot, slot, made_before, names, database, server.slot_keep_mb * MB)


def slot_verdict(
    name: str,
    slot: SlotStatus | None,
    made_before: bool,
    others: Sequence[str],
    database: str,
    keep_bytes: int,
) -> Verdict:
    """Whether the log of changes waits for us, and how long it has.

    Args:
        name: of our slot.
        slot: as it is; None = there is none.
        made_before: whether our relay ever made one of that name here.
        others: further logical slots of this database (Debezium's).
        database: the database we work in.
        keep_bytes: how much WAL the server keeps for a slot; negative = without bound.
    """
    if slot is None:
        if made_before:
            return fail(
                f"the slot {name} is gone",
                "start the relay: it makes the slot anew and reads from the table what was missed",
            )
        if others:
            return ok(f"no slot {name}; other slots read this database: {', '.join(others)}")
        return warn(f"there is no slot {name}", "the relay makes it at its first start")
    if slot.plugin != PLUGIN or slot.database != database:
        return fail(
            f"the slot {name} serves database {slot.database} with {slot.plugin}",
            "set RAJADA_SLOT to a free name",
        )
    behind = f"{slot.lag_bytes / MB:.1f} MB behind, {slot.retained_bytes / MB:.1f} MB of WAL kept"
    if slot.lost:
        return fail(
            f"the slot {name} is lost: the server removed WAL that it needs (max_slot_wal_keep_size)",
            "start the relay: it makes the slot anew and reads from the table what was missed",
        )
    if slot.wal_status == "unreserved":
        return fail(
            f"{name} is about to be lost: {behind}", "start the relay now; raise max_slot_wal_keep_size"
        )
    if not slot.active:
        return warn(f"nobody reads {name}: {behind}", "start the relay: until then no event is answered")
    limit = keep_bytes * HALF if keep_bytes >= 0 else MUCH_WAL
    if slot.retained_bytes > limit:
        bound = "the disk may fill" if keep_bytes < 0 else f"at {keep_bytes / MB:.0f} MB the slot is lost"
        return warn(f"{name}: {behind}", f"{bound}: does the relay keep up? `rajada logs relay`")
    return ok(f"{name} is read, {behind}")
