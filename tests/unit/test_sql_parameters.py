"""Values reach SQL as parameters alone: no statement of ours is put together from text.

Walked are all modules that are shipped, by their syntax, and all SQL files. What is composed at all (names of
roles, publications, partitions) goes through `psycopg.sql` or PostgreSQL's `format` with %I and %L.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("streams", "schemas", "sinks", "db", "web", "ops", "telemetry")
RUN = frozenset({"execute", "executemany", "copy", "stream", "exec_", "exec_params", "send_query", "SQL"})
"""Calls whose first argument is a statement, or becomes one."""
STATEMENT = re.compile(
    r"\s*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(TABLE|SCHEMA|ROLE)\s|"
    r"DROP\s+(TABLE|SCHEMA|ROLE)\s|ALTER\s+TABLE\s|GRANT\s|REVOKE\s|WITH\s+\w+\s+AS\s|COPY\s)"
)
ARGUED = {
    ("db/migrate.py", "CREATE SCHEMA IF NOT EXISTS "): "names of our own schema and ledger, constants",
    ("db/migrate.py", "SELECT migration_id FROM "): "the same",
    ("ops/doctor/postgres.py", "ALTER TABLE "): "words for a person to run; nobody runs them here",
}
"""(file, how the text begins) → why it may be put together. Only constants of ours go into them."""


def put_together(node: ast.AST) -> str | None:
    """The beginning of a text that is put together from parts; None: it is not, or not a text."""
    if isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.FormattedValue) for part in node.values):
        first = node.values[0]
        return str(first.value) if isinstance(first, ast.Constant) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return node.left.value
        return put_together(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        of = node.func.value
        return of.value if isinstance(of, ast.Constant) and isinstance(of.value, str) else None
    return None


def found_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and beginning of each statement that is put together from text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = put_together(node.args[0]) if node.func.attr in RUN else None
            if first is not None:
                yield node.lineno, first
        text = put_together(node)
        if text is not None and STATEMENT.match(text):
            yield getattr(node, "lineno", 0), text


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def put_together_here() -> frozenset[tuple[str, str]]:
    """File and beginning of each statement of ours that is put together; all code is walked once."""
    return frozenset(
        (str(path.relative_to(ROOT)), begin) for path in modules() for _, begin in found_in(path.read_text())
    )


@pytest.mark.thorough
def test_no_statement_is_put_together_from_text() -> None:
    found = put_together_here()
    assert found <= set(ARGUED), sorted(found - set(ARGUED))


@pytest.mark.thorough
def test_what_is_argued_for_is_still_there() -> None:
    assert set(ARGUED) - put_together_here() == set()


@pytest.mark.parametrize(
    "planted",
    [
        'cursor.execute(f"SELECT 1 FROM contacts WHERE phone = \'{phone}\'")',
        'cursor.execute("SELECT 1 WHERE id = %s" % one)',
        'cursor.execute("SELECT 1 WHERE id = " + one)',
        'cursor.execute("UPDATE t SET a = {}".format(one))',
        'statement = f"DELETE FROM {table} WHERE id = {one}"\ncursor.execute(statement)',
        'sql.SQL(f"SELECT {one}")',
        'connection.pgconn.exec_(f"START_REPLICATION {one}")',
        'cursor.executemany("INSERT INTO t VALUES (" + ",".join(values) + ")", [])',
    ],
)  # fmt: skip
def test_one_that_is_would_be_found(planted: str) -> None:
    assert list(found_in(planted))


def test_in_files_values_are_named_parameters_and_names_are_quoted() -> None:
    """A query has %(name)s alone; what a function of ours composes, it composes by %I and %L."""
    for path in sorted((ROOT / "db").rglob("*.sql")):
        text = re.sub(r"--[^\n]*", "", path.read_text())
        text = re.sub(r"(?i)EXECUTE\s+(FUNCTION|ON|PROCEDURE)\b", "", text)  # a trigger's, a grant's
        for composed in re.findall(r"EXECUTE\s+(.{0,400}?);", text, re.S):
            if composed == "'DROP INDEX ' || broken" and "broken regclass;" in text:
                continue  # a regclass writes itself as a quoted name
            assert composed.lower().startswith("format("), (path.name, composed)
            assert not re.search(r"%s|%\d+\$s|\|\|", composed), (path.name, composed)
        if path.parent.name == "queries":
            used = set(re.findall(r"%(?!\()(.)", text.replace("%%", "")))
            assert used <= {"s", "'"}, (path.name, used)  # positional ones, and the end of a LIKE's pattern
