"""Brings a database to the shape Rajada needs.

Three groups of numbered SQL files: `migrations/crm` are the CRM's own tables (the embedded default and
tests), `migrations/rajada` is what we add to them, `migrations/connect` the reconciler's schema. An existing
CRM gets the last two only (spec/dispatch.md, tables). What will be done is told beforehand by `db.plan`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DeadlockDetected, LockNotAvailable
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential
from yoyo import read_migrations
from yoyo.backends import get_backend_class
from yoyo.connections import DatabaseURI

from db.fitness import Crm, check_fit

SCHEMA = "rajada"
FOLDER = Path(__file__).parent / "migrations"
GROUPS: dict[Crm, tuple[str, ...]] = {
    "ours": ("crm", "rajada", "connect"),
    "existing": ("rajada", "connect"),
}
LEDGER_TABLE = "_yoyo_migration"
_LOCK_POLL_S = 0.2


def migrate(url: str, *, crm: Crm) -> list[str]:
    """Applies what is missing, in order, and returns the ids of what was applied now (empty: nothing).

    Safe to call from several processes at once: they queue on an advisory lock. Every file is
    idempotent, so one that was interrupted between its commit and its entry in the ledger runs again.

    Args:
        url: libpq URL or key=value string of the database.
        crm: `ours` makes the CRM's tables too, `existing` adds to the ones that are there.

    Raises:
        UnfitDatabase: an old server, or an existing CRM without the tables of the contract.
        psycopg.Error: the database refused a statement; nothing of its file is applied.
    """
    applied: list[str] = []
    with psycopg.connect(url, autocommit=True) as guard:
        _lock(guard)
        check_fit(guard, crm)
        guard.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        # The ledger lives in our schema. The files run under the URL's own search path, so that they
        # find the CRM's tables wherever the CRM keeps them.
        with _backend(url, search_path=SCHEMA) as ledger, _backend(url) as target:
            ledger.init_database()
            for migration in ledger.to_apply(_files(crm)):
                _apply(migration, target)
                ledger.mark_one(migration)
                applied.append(str(migration.id))
    return applied


@retry(
    # A CRM at work locks its tables in another order than we do. Each file is one transaction and
    # idempotent, so what Postgres broke off starts again.
    retry=retry_if_exception_type((DeadlockDetected, LockNotAvailable)),
    stop=stop_after_attempt(20),
    wait=wait_random_exponential(multiplier=0.1, max=2),
    reraise=True,
)
def _apply(migration: Any, target: Any) -> None:
    migration.process_steps(target, "apply")


def pending(url: str, *, crm: Crm) -> list[str]:
    """The ids of the files that `migrate` would apply, in order. Changes nothing."""
    ids = [str(migration.id) for migration in _files(crm)]
    with psycopg.connect(url, autocommit=True) as connection:
        ledger = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.{LEDGER_TABLE}",)).fetchone()
        if ledger is None or ledger[0] is None:
            return ids
        rows = connection.execute(f"SELECT migration_id FROM {SCHEMA}.{LEDGER_TABLE}")
        done = {str(row[0]) for row in rows}
    return [id_ for id_ in ids if id_ not in done]


def _lock(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Waits for our turn; the lock goes with the connection.

    Asks again and again instead of waiting inside Postgres: CREATE INDEX CONCURRENTLY waits for every
    statement that runs, also for one that waits for this lock, and nobody would see that deadlock.
    """
    while connection.execute("SELECT pg_try_advisory_lock(hashtext('rajada.migrate'))").fetchone() != (True,):
        time.sleep(_LOCK_POLL_S)


def _files(crm: Crm) -> Any:
    # yoyo takes patterns: a folder's name may hold characters that mean something in one.
    return read_migrations(*(escape(str(FOLDER / group)) for group in GROUPS[crm]))


@contextmanager
def _backend(url: str, search_path: str | None = None) -> Iterator[Any]:
    """A connection of yoyo's over psycopg 3.

    Its own URL parser knows neither several hosts nor key=value strings: psycopg takes the URL apart.
    """
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    if search_path is not None:
        parts["options"] = f"{parts.get('options', '')} -c search_path={search_path}".strip()
    database = parts.pop("dbname", None)
    uri = DatabaseURI("postgresql+psycopg", None, None, None, None, database, parts)
    backend = get_backend_class(uri.scheme)(uri, LEDGER_TABLE)
    try:
        yield backend
    finally:
        backend.connection.close()
