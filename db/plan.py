"""Says in words what a migration will do to a database, before it does it.

The lists here are held to the SQL files by a test: after `migrate` nothing of a plan is left.
"""

from __future__ import annotations

import psycopg

from db.fitness import CONTRACT, Crm, check_fit
from db.migrate import SCHEMA
from db.queries import load
from db.replication import row_filter, slot_status
from settings import Settings

Connection = psycopg.Connection[tuple[object, ...]]

CRM_TABLES = (*CONTRACT, "group_link_dispatch_queue")

COLUMNS = {
    "event_log": ("partition_key", "outcome", "job_id", "outcome_replay", "outcome_seq"),
    "job_queue": ("outcome_replay", "outcome_seq"),
    "group_link_dispatch_queue": ("outcome_replay", "outcome_seq"),
    "agent_inbox_items": ("occurrences", "last_seen_at"),
}
"""Table → the columns that we add."""

INDEXES = {
    "rajada_job_queue_event_ids": "job_queue",
    "rajada_job_queue_source_event_id": "job_queue",
    "rajada_job_queue_dead": "job_queue",
    "rajada_event_log_open": "event_log",
    "rajada_event_log_dead": "event_log",
    "rajada_job_queue_running": "job_queue",
    "rajada_job_queue_behind": "job_queue",
    "rajada_group_links_processing": "group_link_dispatch_queue",
    "rajada_job_queue_waiting": "job_queue",
    "rajada_job_queue_foreign": "job_queue",
    "rajada_event_log_processing": "event_log",
    "rajada_inbox_unresolved": "agent_inbox_items",
}
"""Index → its table."""

TRIGGER = "zz_rajada_partition_key"

OUR_TABLES = (
    *("meta", "trace", "swept", "replays", "sink_offsets", "windows_settings", "relay", "leases"),
    *("closed_letters", "dropped", "orders", "troubles", "tokens", "whatsapp_numbers"),
)

CONNECT_TABLES = (
    *("whatsapp_states", "whatsapp_instances", "whatsapp_moves", "limits", "turns"),
    *("schedules", "firings", "requests", "system_notifications", "notification_texts"),
)


def plan(url: str, *, crm: Crm, settings: Settings | None = None) -> list[str]:
    """The steps still to do, one sentence each, in their order; empty = nothing. Changes nothing.

    Args:
        url: libpq URL of the database.
        crm: as for `db.migrate.migrate`.
        settings: with it, publication and slot are told too.

    Raises:
        UnfitDatabase: as for `migrate`.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        check_fit(connection, crm)
        state: dict[str, set[str]] = {}
        for kind, name in connection.execute(load("plan_state"), {"tables": list(CRM_TABLES)}):
            state.setdefault(str(kind), set()).add(str(name))
        steps = _tables(state, crm) + _additions(state, crm)
        if settings is not None:
            steps += _replication(connection, state, settings)
        return steps


def _tables(state: dict[str, set[str]], crm: Crm) -> list[str]:
    missing = [name for name in CRM_TABLES if name not in state.get("table", set())]
    if crm == "existing" or not missing:
        return []
    return [f"create the CRM's tables {', '.join(missing)}"]


def _additions(state: dict[str, set[str]], crm: Crm) -> list[str]:
    steps: list[str] = []
    for table, columns in COLUMNS.items():
        if crm == "existing" and table not in state.get("table", set()):
            continue  # a CRM without group links stays without them
        missing = [c for c in columns if f"{table}.{c}" not in state.get("column", set())]
        if missing:
            steps.append(f"add to {table} the columns {', '.join(missing)} (no rewrite, a lock of a moment)")
    ours = [f"{SCHEMA}.{name}" for name in OUR_TABLES if name not in state.get("ours", set())]
    if ours:
        steps.append(f"create in schema {SCHEMA} the tables {', '.join(ours)}")
    connect = [f"connect.{name}" for name in CONNECT_TABLES if name not in state.get("connect", set())]
    if connect:
        steps.append(f"create in schema connect the tables {', '.join(connect)}, with views and functions")
    if TRIGGER not in state.get("trigger", set()):
        steps.append(
            f"create the trigger {TRIGGER} on event_log: it fills partition_key before each insert and "
            "never makes an insert fail"
        )
    steps += [
        f"build the index {name} on {table} without blocking writes"
        for name, table in INDEXES.items()
        if name not in state.get("index", set())
        and not (crm == "existing" and table not in state.get("table", set()))
    ]
    return steps


def _replication(connection: Connection, state: dict[str, set[str]], settings: Settings) -> list[str]:
    steps: list[str] = []
    server = dict(setting.split("=", 1) for setting in state["setting"])
    if server["wal_level"] != "logical":
        steps.append(
            f"ask you to set wal_level = logical and restart Postgres (it is {server['wal_level']}): without "
            "it nothing can be published"
        )
    publication = {"name": settings.publication, "table": "event_log"}
    if connection.execute(load("publication_state"), publication).fetchone() is None:
        condition = row_filter(connection, ("…",)) if "event_log" in state.get("table", set()) else None
        told = "" if condition is not None else " (without a filter: the publisher filters itself)"
        steps.append(f"create the publication {settings.publication} of inserted pending events{told}")
    if slot_status(connection, settings.slot) is None:
        bound = server["max_slot_wal_keep_size"]
        kept = "without bound (max_slot_wal_keep_size is -1)" if bound == "-1" else f"up to {bound} MB"
        steps.append(
            f"create the replication slot {settings.slot}: Postgres keeps the WAL that it hasn't read {kept}"
        )
    return steps
