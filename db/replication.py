"""Publication and replication slot: made, checked, told about, dropped.

Their names are settings (`settings.publication`, `settings.slot`), so they are made here and not by the
numbered SQL files. With Debezium there is one of each per event type: pass that type alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from db.publisher import EVENT_TYPES
from db.queries import load
from settings import RajadaError

PLUGIN = "pgoutput"
TABLE = "event_log"

Connection = psycopg.Connection[tuple[object, ...]]


class ReplicationRefused(RajadaError):
    """Publication or slot can't be had as they are; the message names the way out."""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """A logical slot as pg_replication_slots shows it; sizes in bytes, positions as numbers."""

    plugin: str
    database: str
    active: bool
    wal_status: str | None
    confirmed_flush_lsn: int | None
    retained_bytes: int
    """WAL that the server keeps for this slot."""
    lag_bytes: int
    """WAL written since what the publisher confirmed."""

    @property
    def lost(self) -> bool:
        """The server removed WAL that the slot needs (max_slot_wal_keep_size): it is of no more use."""
        return self.wal_status == "lost"


def ensure_publication(connection: Connection, name: str, event_types: Sequence[str] = EVENT_TYPES) -> bool:
    """Makes the publication of inserted pending events, or brings an older one of ours up to date.

    Args:
        connection: in autocommit mode, of a role that owns the table.
        name: of the publication.
        event_types: which events it publishes.

    Returns:
        Whether something was changed.

    Raises:
        ReplicationRefused: a publication of that name publishes other tables, or rights are missing.
    """
    condition = row_filter(connection, event_types)
    mark = f"rajada: {condition.as_string(connection) if condition else 'unfiltered'}"
    state = connection.execute(load("publication_state"), {"name": name, "table": TABLE}).fetchone()
    if state is not None:
        tables, all_tables, comment, has_table = state
        if all_tables or tables != 1 or not has_table:
            raise ReplicationRefused(
                f"the publication {name} exists and publishes other tables than {TABLE}: set "
                "RAJADA_PUBLICATION to a free name"
            )
        if comment == mark:
            return False
    _write_publication(connection, name, condition, mark, exists=state is not None)
    return True


def row_filter(connection: Connection, event_types: Sequence[str]) -> sql.Composed | None:
    """The publication's condition, None when no column can be looked at.

    A filter may look at built-in types only, so an enum column is left out; whoever reads the stream
    filters for itself then (spec/dispatch.md, step 1).
    """
    columns = {
        "event_type": sql.SQL(", ").join(sql.Literal(t) for t in event_types),
        "status": sql.Literal("pending"),
    }
    rows = connection.execute(load("filterable_columns"), {"table": TABLE, "columns": list(columns)})
    usable = {str(name) for (name,) in rows}
    parts = [
        sql.SQL("{} IN ({})").format(sql.Identifier(name), values)
        for name, values in columns.items()
        if name in usable
    ]
    return sql.SQL(" AND ").join(parts) if parts else None


def slot_status(connection: Connection, slot: str) -> SlotStatus | None:
    """The slot, None when it doesn't exist."""
    return next((status for _, status in _slots(connection, slot)), None)


def slots(connection: Connection) -> list[tuple[str, SlotStatus]]:
    """The logical slots of this database by name."""
    return _slots(connection, None)


def _slots(connection: Connection, slot: str | None) -> list[tuple[str, SlotStatus]]:
    rows = connection.execute(load("slots"), {"slot": slot}).fetchall()
    return [(str(name), SlotStatus(*row)) for name, *row in rows]  # type: ignore[arg-type]  # shape: the query's header


def ensure_slot(connection: Connection, slot: str) -> bool:
    """Makes the slot if there is none, and returns whether it was made.

    Raises:
        ReplicationRefused: a slot of that name serves something else, or the server isn't set up for it.
    """
    found = slot_status(connection, slot)
    if found is not None:
        if found.plugin != PLUGIN or found.database != connection.info.dbname:
            raise ReplicationRefused(
                f"the replication slot {slot} serves database {found.database} with plugin {found.plugin}: "
                "set RAJADA_SLOT to a free name"
            )
        return False
    try:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (slot, PLUGIN))
    except psycopg.errors.DuplicateObject:
        return False
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        raise ReplicationRefused("set wal_level = logical in postgresql.conf and restart Postgres") from error
    except psycopg.errors.ConfigurationLimitExceeded as error:
        raise ReplicationRefused("all replication slots are in use: raise max_replication_slots") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise ReplicationRefused(
            "the role needs the attribute REPLICATION: ALTER ROLE … REPLICATION"
        ) from error
    return True


def drop(connection: Connection, *, publication: str | None = None, slot: str | None = None) -> list[str]:
    """Drops what is named and there; returns what was dropped in words. A reader of the slot is cut off."""
    dropped: list[str] = []
    if slot is not None and slot_status(connection, slot) is not None:
        connection.execute(load("slot_drop"), {"slot": slot})
        dropped.append(f"replication slot {slot}")
    if publication is not None:
        state = connection.execute(
            load("publication_state"), {"name": publication, "table": TABLE}
        ).fetchone()
        if state is not None:
            connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(publication)))
            dropped.append(f"publication {publication}")
    return dropped


def _write_publication(
    connection: Connection, name: str, condition: sql.Composed | None, mark: str, *, exists: bool
) -> None:
    publication = sql.Identifier(name)
    what = sql.SQL("TABLE {}").format(sql.Identifier(TABLE))
    if condition is not None:
        what += sql.SQL(" WHERE ({})").format(condition)
    # Of a partitioned log the stream names the root table, as if it were not partitioned.
    options = sql.SQL("(publish = 'insert', publish_via_partition_root = true)")
    try:
        with connection.transaction():
            if exists:
                connection.execute(sql.SQL("ALTER PUBLICATION {} SET {}").format(publication, what))
                connection.execute(sql.SQL("ALTER PUBLICATION {} SET {}").format(publication, options))
            else:
                connection.execute(
                    sql.SQL("CREATE PUBLICATION {} FOR {} WITH {}").format(publication, what, options)
                )
            connection.execute(
                sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(publication, sql.Literal(mark))
            )
    except psycopg.errors.InsufficientPrivilege as error:
        raise ReplicationRefused(
            f"the role may not make the publication {name}: run `rajada migrate` as the owner of {TABLE} "
            "with CREATE on the database"
        ) from error
