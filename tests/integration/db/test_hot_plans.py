"""Every hot statement of db/queries goes by its indexes, and would be noticed if it stopped.

Plans are generic ones (for no value in particular) over a database with rows and statistics, where reading a
whole table costs more than anything: an index that is not in a plan then can't serve it. Each is dropped in a
transaction to prove that its test would fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from bench.growth import FILL
from bench.servers import own_database
from db.queries import load, names

Connection = psycopg.Connection[tuple[Any, ...]]

TRACE = re.compile(r"^trace_(?:\d+|default)_(\w+)_at_idx$")
GROWING = re.compile(
    r"^(event_log|job_queue|messages|conversations|contacts|group_link_dispatch_queue|followup_enrollments|swept"
    r"|trace_.*|closed_letters|replays)$"
)
"""Tables that grow with traffic: nobody reads one of them whole in a hot statement."""

LOOKED_UP = {
    # the worker, for every window
    "window_lengths": ["conversations_pkey", "ai_agent_versions_session", "windows_settings_scope"],
    "decide_facts": [
        "contacts_pkey", "conversations_pkey", "event_log_pkey", "messages_conversation", "messages_media",
        "rajada_job_queue_event_ids", "rajada_job_queue_source_event_id",
    ],
    "decide_eligibility": ["contacts_pkey", "conversations_pkey"],
    "decide_followup": [
        "contacts_pkey", "conversations_pkey", "messages_contact", "messages_pkey",
        "followup_enrollments_pointer", "followup_enrollment_events_enrollment",
    ],
    # the sink, for every batch
    "sink_offsets_read": ["sink_offsets_pkey"],
    "sink_offsets_advance": ["sink_offsets_pkey"],
    "sink_events": ["event_log_pkey"],
    "sink_settle": ["event_log_pkey", "job_queue_pkey"],
    "sink_jobs": ["contacts_pkey", "rajada_job_queue_source_event_id", "rajada_job_queue_running"],
    "sink_jobs_moved": ["job_queue_pkey", "rajada_job_queue_running"],
    "sink_jobs_behind": ["job_queue_pkey", "rajada_job_queue_running"],
    "sink_jobs_handed_over": ["contacts_pkey", "rajada_job_queue_source_event_id", "trace job_id"],
    "sink_group_links": ["group_link_dispatch_queue_pkey"],
    "sink_trace": ["event_log_pkey", "job_queue_pkey", "trace event_id", "trace job_id"],
    "sink_alert": ["agent_inbox_items_open"],
    "sink_cures": ["troubles_family"],
    "sink_conditions_over": ["troubles_pkey"],
    # the relay and the sweep
    "relay_state": ["relay_pkey"],
    "relay_backfilled": ["relay_pkey"],
    "relay_backfill_page": ["rajada_event_log_open"],
    "sweep_waiting": ["rajada_event_log_open", "swept_pkey"],
    "sweep_claim": ["event_log_pkey", "rajada_event_log_open", "swept_pkey"],
    "sweep_unclaim": ["swept_pkey"],
    # who asks why
    "why_kinds": [
        "contacts_pkey", "event_log_pkey", "job_queue_pkey", "messages_pkey", "trace contact_id",
        "trace event_id", "trace job_id", "trace message_id",
    ],
    "why_events": ["event_log_pkey"],
    "why_events_of_contact": ["trace event_id"],
    "why_events_of_job": ["job_queue_pkey", "trace job_id"],
    "why_events_of_message": ["event_log_entity", "messages_pkey", "trace event_id"],
    "why_jobs": ["job_queue_pkey", "rajada_job_queue_event_ids", "rajada_job_queue_source_event_id"],
    "why_trace": ["trace event_id", "trace job_id"],
    "why_place": ["contacts_pkey", "messages_pkey", "trace contact_id"],
    "why_group_links": ["group_link_dispatch_queue_pkey"],
    "why_settled": ["closed_letters_settled", "dropped_id", "replays_pkey"],
    "why_swept": ["swept_pkey"],
    "why_alerts": ["agent_inbox_items_open", "troubles_family"],
    # the live page, every few seconds, and commands
    "page_due_jobs": ["job_queue_due"],
    "page_next_jobs": ["job_queue_due"],
    "page_due_links": ["group_link_dispatch_queue_due"],
    "page_next_links": ["group_link_dispatch_queue_due"],
    "page_phones": ["contacts_pkey"],
    "page_tokens_find": ["page_tokens_pkey"],
    "tokens_find": ["tokens_pkey"],
    "events_done": ["event_log_pkey", "trace event_id"],
    "jobs_ended": ["job_queue_pkey"],
    "order_known": ["orders_pkey"],
    "order_outcome": ["trace job_id"],
    "order_place": ["job_queue_pkey", "trace job_id"],
    "order_place_of_link": ["group_link_dispatch_queue_pkey"],
}  # fmt: skip
"""Statement → the indexes that it needs; `trace x`: those on that column of all of the trace's partitions."""

HOT = re.compile(r"^(decide|sink|relay|sweep|why|window)_")
NOT_LOOKED_UP = {
    "relay_confirmed": "one row, by its slot, of a table with a row a slot",
    "relay_note_gap": "rajada.meta has one row",
    "sink_alert_lock": "an advisory lock",
    "sink_conditions": "of tenants that had trouble, once a pass",
    "sink_offsets_open": "an INSERT",
    "sink_organizations": "tenants by id, of a table that does not grow with traffic",
    "sink_progress": "rajada.sink_offsets has a row a partition",
    "sink_trace_partitions": "makes tables, once an hour",
    "sink_troubles": "an INSERT; tenants by id",
    "sweep_forget": "once an hour, over what the sweep itself has noted",
    "sweep_sink": "rajada.sink_offsets has a row a partition",
    "why_orders": "of the newest orders alone",
}
"""Statements of hot names that need no index, and why."""


@pytest.fixture(scope="module")
def rows(postgres: str) -> Iterator[Connection]:
    """Some thousand rows, with statistics, in a database of this module's own."""
    with own_database(postgres) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL.read_bytes())
        connection.execute("RESET session_replication_role")
        connection.execute("ANALYZE")
        connection.prepare_threshold = None
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection


def plan_of(connection: Connection, name: str) -> tuple[set[str], set[str]]:
    """Indexes and tables read whole, of a plan for no values in particular."""
    text = load(name)
    parameters = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    for number, parameter in enumerate(parameters, 1):
        text = text.replace(f"%({parameter})s", f"${number}")
    text = text.replace("%%", "%").rstrip().rstrip(";")
    connection.execute("DEALLOCATE ALL")
    connection.execute(f"PREPARE asked AS {text}".encode())
    values = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
    told = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE asked{values}".encode()).fetchone()
    assert told is not None
    nodes = list(_nodes(told[0][0]["Plan"]))
    whole = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    return {_named(node["Index Name"]) for node in nodes if "Index Name" in node}, whole


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", []):
        yield from _nodes(below)


def _named(index: str) -> str:
    of_trace = TRACE.match(index)
    return f"trace {of_trace[1]}" if of_trace else index


def check(connection: Connection, name: str, needed: list[str]) -> None:
    """The test: all indexes are used, and no table that grows is read whole."""
    used, whole = plan_of(connection, name)
    assert not set(needed) - used, f"{name} does not use {set(needed) - used} but {used}"
    assert not {one for one in whole if GROWING.match(one)}, f"{name} reads whole: {whole}"


def drop(connection: Connection, index: str) -> None:
    """The index, or the constraint that it serves, and what hangs on it."""
    if index.startswith("trace "):
        found = connection.execute(
            "SELECT indexrelid::regclass::text, indrelid::regclass::text, NULL FROM pg_index"
            " WHERE indrelid = 'rajada.trace'::regclass AND pg_get_indexdef(indexrelid, 1, true) = %s",
            [index.removeprefix("trace ")],
        ).fetchall()
    else:
        found = connection.execute(
            "SELECT indexrelid::regclass::text, indrelid::regclass::text, conname FROM pg_index"
            " JOIN pg_class ON pg_class.oid = indexrelid"
            " LEFT JOIN pg_constraint ON conindid = indexrelid AND conrelid = indrelid"
            " WHERE relname = %s",
            [index],
        ).fetchall()
    assert len(found) == 1, f"{index}: {found}"
    ((name, table, constraint),) = found
    if constraint is None:
        connection.execute(f"DROP INDEX {name} CASCADE".encode())
    else:
        statement = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {} CASCADE")
        connection.execute(statement.format(sql.SQL(table), sql.Identifier(constraint)))


@pytest.mark.parametrize("name", LOOKED_UP)
def test_a_hot_statement_goes_by_its_indexes(rows: Connection, name: str) -> None:
    check(rows, name, LOOKED_UP[name])


@pytest.mark.parametrize("name", LOOKED_UP)
def test_it_would_be_noticed_without_any_of_them(rows: Connection, name: str) -> None:
    for index in LOOKED_UP[name]:
        with rows.transaction(force_rollback=True):
            drop(rows, index)
            # An upsert without its unique index is no statement any more: that is noticed too.
            with pytest.raises((AssertionError, psycopg.errors.InvalidColumnReference)):
                check(rows, name, LOOKED_UP[name])
    check(rows, name, LOOKED_UP[name])


def test_no_hot_statement_is_forgotten() -> None:
    hot = {name for name in names() if HOT.match(name)}
    assert hot - LOOKED_UP.keys() - NOT_LOOKED_UP.keys() == set()
    assert NOT_LOOKED_UP.keys() <= hot and not NOT_LOOKED_UP.keys() & LOOKED_UP.keys()
