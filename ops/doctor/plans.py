"""Whether a CRM's indexes carry the decisions: each window looks rows up, in tables that only ever grow.

Postgres is asked for the plans of the worker's own statements. Where it would read a table whole, the time of
a decision grows with the table (docs/adr/decisions-read-by-index.md).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from db.queries import load
from db.replication import Connection
from ops.doctor.findings import Verdict, ok, warn
from streams.fact_statements import STATEMENTS, parameters
from streams.question import AskedEvent, Question

GROWING: Final = frozenset(
    {
        "messages",
        "conversations",
        "contacts",
        "event_log",
        "job_queue",
        "followup_enrollments",
        "followup_enrollment_events",
    }
)
"""Tables that have a row for every customer, message or job."""

MANY_ROWS: Final = 1_000
"""By the statistics that ANALYZE keeps."""

INDEXES: Final[Mapping[tuple[str, str], str]] = {
    ("messages", "conversation_id"): "messages (organization_id, conversation_id, "
    "(coalesce(sent_at, created_at)) DESC, created_at DESC, id DESC)",
    ("messages", "contact_id"): "messages (contact_id, (coalesce(sent_at, created_at)) DESC) "
    "WHERE direction = 'inbound'",
    ("followup_enrollments", "contact_id"): "followup_enrollments (organization_id, contact_id)",
    ("followup_enrollment_events", "enrollment_id"): "followup_enrollment_events (enrollment_id, event_type)",
}
"""Table and the column that rows are looked up by → the index that serves it best."""


_SELECTIVE: Final = re.compile(
    r"\((?:id|conversation_id|contact_id|enrollment_id|source_event_id) = |'event_ids'"
)
"""Conditions that few rows meet; an organization's are many."""


@dataclass(frozen=True, slots=True, order=True)
class WholeRead:
    """A table that a plan reads from end to end, and by which of its columns it picks rows."""

    table: str
    column: str


def decision_plans(connection: Connection) -> list[Verdict]:
    """What the plans of the three statements say; asks for the plans, runs nothing."""
    found: set[WholeRead] = set()
    asked = parameters([_nobodys_window()])
    large = _large(connection)
    with connection.transaction():
        connection.execute("SET LOCAL enable_seqscan = off")  # as the worker has it
        for statement in STATEMENTS:
            row = connection.execute(
                f"EXPLAIN (FORMAT JSON, COSTS OFF) {load(statement)}".encode(), asked
            ).fetchone()
            assert row is not None and isinstance(row[0], list)
            found |= set(whole_reads(row[0][0]["Plan"]))
    return verdicts(sorted(one for one in found if one.table in large), large)


def _large(connection: Connection) -> set[str]:
    """The growing tables that have grown: of the others every plan is a good one, and any may be told."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE oid = ANY (SELECT to_regclass(t) FROM unnest(%s::text[]) t)"
        " AND reltuples >= %s",
        [sorted(GROWING), MANY_ROWS],
    )
    return {str(name) for (name,) in rows}


def verdicts(found: Sequence[WholeRead], large: Collection[str]) -> list[Verdict]:
    """What reading tables whole means; `large` are those that could be judged."""
    if not large:
        return [ok("too few rows yet to judge")]
    return [_verdict(one) for one in found] or [ok(f"{', '.join(sorted(large))} are looked up by an index")]


def _verdict(one: WholeRead) -> Verdict:
    if not one.column:
        return warn(f"decisions read too much of {one.table}", "look at its indexes")
    index = INDEXES.get((one.table, one.column), f"{one.table} ({one.column})")
    return warn(
        f"decisions read too much of {one.table}: no index on {one.column}",
        f"CREATE INDEX CONCURRENTLY ON {index}",
    )


def whole_reads(node: Mapping[str, object]) -> Iterator[WholeRead]:
    """The growing tables of which a plan (a node of EXPLAIN's JSON) reads all, or all of an organization."""
    table, kind = str(node.get("Relation Name", "")), str(node.get("Node Type", ""))
    parts = node.get("Plans", [])
    assert isinstance(parts, list)
    if table in GROWING and kind.endswith("Scan"):
        by_index = [str(one.get("Index Cond", "")) for one in [node, *parts]]
        if not any(_SELECTIVE.search(condition) for condition in by_index):
            yield WholeRead(table, _picked_by(table, str(node.get("Filter", ""))))
    for part in parts:
        yield from whole_reads(part)


def _picked_by(table: str, condition: str) -> str:
    """The column that a filter compares rows by: the one of an index that would serve, else a key's."""
    columns = [column for of, column in INDEXES if of == table]
    return next((column for column in (*columns, "source_event_id", "id") if column in condition), "")


def _nobodys_window() -> Question:
    nil = str(UUID(int=0))
    return Question(nil, nil, nil, nil, (AskedEvent(nil, nil, 0),), now_ms=0, deadline_ms=0)
