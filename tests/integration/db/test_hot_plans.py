"""Every hot statement of db/queries goes by its indexes, and would be noticed if it stopped.

Plans are generic ones (for no value in particular) over a database with rows and statistics, where reading a
whole table costs more than anything: an index that is not in a plan then can't serve it. Each is dropped in a
transaction to prove that its test would fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from bench.growth import FILL
from bench.servers import own_database
from db.queries import load, names
from tests.integration.db.hot_statements import COLD, GROWING, LOOKED_UP, NOT_LOOKED_UP, WHOLE

Connection = psycopg.Connection[tuple[Any, ...]]

ROWS = Path(__file__).with_name("hot_rows.sql")
TRACE = re.compile(r"^trace_(?:\d+|default)_(\w+)_at_idx$")
TAKES_ALL = {"Sort", "Incremental Sort", "Aggregate", "Hash", "WindowAgg", "Bitmap Heap Scan", "Materialize"}
IN_A_FUNCTION: dict[str, dict[str, object]] = {
    "connect_rebuild": {"most": 1000},
    "connect_reserve": {"batch": 10, "owner": "test", "lease_s": 60.0},
}
"""Statements that call a function of plpgsql, with what they are called with here."""


@pytest.fixture(scope="module")
def rows(postgres: str) -> Iterator[Connection]:
    """Some thousand rows, with statistics, in a database of this module's own."""
    with own_database(postgres) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(FILL.read_bytes())
        connection.execute(ROWS.read_bytes())
        connection.execute("RESET session_replication_role")
        connection.execute("ANALYZE")
        connection.prepare_threshold = None
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection


def plan_of(connection: Connection, name: str) -> tuple[set[str], set[str]]:
    """Indexes, and what is read whole, of a plan for no values in particular."""
    text = load(name)
    if name in IN_A_FUNCTION:
        return _run(connection, text, IN_A_FUNCTION[name])
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
    used = {_named(node["Index Name"]) for node in nodes if "Index Name" in node}
    arbiters = {index for node in nodes for index in node.get("Conflict Arbiter Indexes", ())}
    return used | arbiters, set(_whole(told[0][0]["Plan"]))


def _whole(node: dict[str, Any], table: str = "", limited: bool = False) -> Iterator[str]:
    """Tables that are read from end to end: also by an index, where no condition bounds what is read of it.

    An index that is read in its order for a LIMIT ends there, unless something between takes all rows first.
    """
    kind, table = node["Node Type"], node.get("Relation Name", table)
    if kind == "Seq Scan":
        yield table
    elif "Index Name" in node and "Index Cond" not in node and not limited:
        yield f"{table} by {_named(node['Index Name'])}"
    limited = kind == "Limit" or (limited and kind not in TAKES_ALL)
    for below in node.get("Plans", []):
        yield from _whole(below, table, limited and below.get("Parent Relationship") != "InitPlan")


def _run(connection: Connection, text: str, values: dict[str, object]) -> tuple[set[str], set[str]]:
    """The same of a statement that calls a function: EXPLAIN sees nothing of it, the server's counters do."""
    with connection.transaction(force_rollback=True):
        connection.execute(text, values)
        indexes = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'i' AND pg_stat_get_xact_numscans(oid) > 0"
        ).fetchall()
        tables = connection.execute(
            "SELECT relname FROM pg_stat_xact_user_tables WHERE seq_scan > 0"
        ).fetchall()
    return {_named(index) for (index,) in indexes}, {table for (table,) in tables}


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
    whole = {one for one in whole if GROWING.match(one.split()[0])} - WHOLE.get(name, set())
    assert not whole, f"{name} reads whole: {whole}"


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


def test_no_statement_is_forgotten() -> None:
    told = [*LOOKED_UP, *NOT_LOOKED_UP, *COLD]
    assert sorted(told) == names(), "each is in exactly one of the tables"
    assert WHOLE.keys() <= LOOKED_UP.keys()


def test_a_table_that_is_read_whole_by_an_index_is_noticed() -> None:
    plan = {"Node Type": "Index Scan", "Index Name": "job_queue_pkey", "Relation Name": "job_queue"}
    assert set(_whole(plan)) == {"job_queue by job_queue_pkey"}
    assert set(_whole({"Node Type": "Limit", "Plans": [plan]})) == set()
    sort = {"Node Type": "Sort", "Plans": [plan]}
    assert set(_whole({"Node Type": "Limit", "Plans": [sort]})) == {"job_queue by job_queue_pkey"}
    assert set(_whole(plan | {"Index Cond": "(id = $1)"})) == set()
