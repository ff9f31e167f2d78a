"""Rows of a CRM's tables as plain data, and how they get into Postgres.

Times are milliseconds since the epoch, infinite ones included; JSON columns hold decoded JSON. What a row
doesn't name gets the column's default.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from db.migrate import migrate

Row = dict[str, object]
Tables = dict[str, list[Row]]
Connection = psycopg.Connection[tuple[object, ...]]

TABLES = (
    "organizations",
    "channel_sessions",
    "contacts",
    "conversations",
    "messages",
    "ai_agents",
    "ai_agent_versions",
    "ai_routers",
    "ai_router_members",
    "followup_flow_pointers",
    "followup_flow_versions",
    "followup_enrollments",
    "followup_enrollment_events",
    "event_log",
    "job_queue",
    "agent_inbox_items",
)
TIMES = frozenset(
    {
        "created_at",
        "updated_at",
        "sent_at",
        "started_at",
        "next_attempt_at",
        "resolved_at",
        "locked_at",
        "run_after",
        "archived_at",
        "paused_at",
        "ai_authorized_at",
        "bot_silenced_until",
    }
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@contextmanager
def crm_database(admin_url: str, name: str) -> Iterator[str]:
    """URL of a database with all tables, as loose as a CRM's may be: without foreign keys and checks."""
    identifier = sql.Identifier(name)
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))
        admin.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
        url = make_conninfo(admin_url, dbname=name)
        try:
            migrate(url, crm="ours")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_LOOSEN)
            yield url
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


_LOOSEN = """
DO $$
DECLARE
    it record;
BEGIN
    FOR it IN SELECT conrelid::regclass AS tab, conname FROM pg_constraint
        WHERE contype IN ('f', 'c') AND connamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', it.tab, it.conname);
    END LOOP;
    FOR it IN SELECT attrelid::regclass AS tab, attname FROM pg_attribute JOIN pg_class ON oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND attnotnull
          AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = attrelid AND i.indisprimary
                          AND attnum = ANY (i.indkey))
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', it.tab, it.attname);
    END LOOP;
    DROP INDEX job_queue_one_running_per_contact;
END
$$
"""


def replace_rows(connection: Connection, tables: Tables) -> None:
    """Make the database hold exactly these rows; triggers don't fire."""
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        for table in TABLES:
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
        for table, rows in tables.items():
            _insert(connection, table, rows)


def _insert(connection: Connection, table: str, rows: list[Row]) -> None:
    alike: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        alike[tuple(sorted(row))].append({name: _stored(name, value) for name, value in row.items()})
    for names, group in alike.items():
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        statement = sql.SQL(
            "INSERT INTO {table} ({columns}) "
            "SELECT {columns} FROM jsonb_populate_recordset(null::{table}, %s)"
        )
        connection.execute(
            statement.format(table=sql.Identifier(table), columns=columns), (json.dumps(group),)
        )


def _stored(name: str, value: object) -> object:
    if name not in TIMES or value is None:
        return value
    assert isinstance(value, (int, float))
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return (_EPOCH + timedelta(milliseconds=value)).isoformat()
