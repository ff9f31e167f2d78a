"""Whether a database can serve at all: the server's version, and the tables of an existing CRM.

The contract is the table list of spec/dispatch.md: names and columns as a CRM has them. Additions of
ours are not asked for here, the migrations bring them.
"""

from __future__ import annotations

from typing import Literal

import psycopg

from settings import RajadaError

Crm = Literal["ours", "existing"]
"""Whose tables: `ours` means the migrations make them, `existing` means the CRM has them."""

LEAST_SERVER_VERSION = 150_000
"""Row filters of publications came with Postgres 15."""

CONTRACT: dict[str, str] = {
    "event_log": "id organization_id event_type entity_kind entity_id payload metadata consumed_by attempts "
    "last_error next_attempt_at status created_at updated_at",
    "organizations": "id status settings",
    "channel_sessions": "id organization_id status metadata",
    "contacts": "id organization_id name phone_number force_human is_blocked tags ai_authorized_at",
    "conversations": "id organization_id contact_id channel_session_id is_group assignee_kind "
    "bot_silenced_until active_ai_agent_id",
    "messages": "id organization_id conversation_id channel_session_id contact_id type direction media_url "
    "media_derived_status sent_at created_at",
    "ai_agents": "id organization_id priority operation_mode archived_at paused_at published_version_id "
    "created_at",
    "ai_agent_versions": "id organization_id agent_id channel_session_id status inbound_debounce_ms followup",
    "ai_routers": "id organization_id channel_session_id is_active fallback_agent_id",
    "ai_router_members": "organization_id router_id agent_id",
    "followup_flow_pointers": "id organization_id status active_version_id trigger_config",
    "followup_flow_versions": "id organization_id graph",
    "followup_enrollments": "id organization_id pointer_id contact_id conversation_id status started_at",
    "followup_enrollment_events": "organization_id enrollment_id event_type payload",
    "job_queue": "id organization_id contact_id kind source_event_id payload status priority run_after "
    "attempts max_attempts last_error locked_by locked_at created_at",
    "agent_inbox_items": "id organization_id kind severity title body ref_kind ref_id status created_at "
    "resolved_at",
}
"""Table → the columns that are read or written, without those that we add."""


class UnfitDatabase(RajadaError):
    """The database can't serve as it is; the message names what to change."""


def check_fit(connection: psycopg.Connection[tuple[object, ...]], crm: Crm) -> None:
    """Raises UnfitDatabase when the server is too old or an existing CRM lacks a part of the contract."""
    version = connection.info.server_version
    if version < LEAST_SERVER_VERSION:
        raise UnfitDatabase(
            f"Postgres 15 or newer is needed, this is {version // 10_000}: upgrade the server"
        )
    if crm == "existing" and (missing := missing_columns(connection)):
        raise UnfitDatabase(
            f"the CRM's database lacks {', '.join(missing)}: point DATABASE_URL at the CRM's database (and "
            "search_path at its schema), or let Rajada make the tables in an empty one"
        )


def missing_columns(connection: psycopg.Connection[tuple[object, ...]]) -> list[str]:
    """What of the contract isn't visible under the search path, as `table` or `table.column`."""
    rows = connection.execute(
        "SELECT t.name, a.attname FROM unnest(%s::text[]) AS t (name) "
        "LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(t.name) AND attnum > 0 AND NOT attisdropped",
        (list(CONTRACT),),
    ).fetchall()
    there: dict[str, set[str]] = {}
    for table, column in rows:
        columns = there.setdefault(str(table), set())
        if column is not None:
            columns.add(str(column))
    missing: list[str] = []
    for table, wanted in CONTRACT.items():
        if not there[table]:
            missing.append(table)
        else:
            missing += [f"{table}.{column}" for column in wanted.split() if column not in there[table]]
    return missing
