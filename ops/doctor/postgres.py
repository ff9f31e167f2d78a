"""Whether the database can serve: version, tables and columns, clock, and who else works in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import psycopg

from db.fitness import LEAST_SERVER_VERSION, Crm, missing_columns
from db.migrate import pending
from db.plan import TRIGGER, plan
from db.pool import conninfo_for
from db.queries import load
from db.replication import TABLE, Connection
from ops.doctor.findings import Check, Verdict, fail, ok, warn
from ops.doctor.plans import decision_plans
from ops.doctor.rights import rights
from ops.errors import OpsError
from ops.given import shown, whose_tables
from settings import RajadaError, Settings
from streams.coexistence import Sign, cut_over, in_the_way, left_behind, look, told

SKEW_S: Final = 1.0
CONNECT_S: Final = "5"
FEW_CONNECTIONS: Final = 10
"""One worker, one sink, the relay and the web service make about as many."""
MIGRATE: Final = "run `rajada migrate`"


class PostgresAway(RajadaError):
    """Postgres does not answer."""


class PostgresFull(OpsError):
    """Postgres is up, but takes no more clients."""


OUT_OF_CONNECTIONS: Final = ("too many clients", "remaining connection slots", "too many connections")
"""What the server says then, in English: of a connection that failed libpq hands on no SQLSTATE (53300)."""


def connect(url: str) -> Connection:
    """A connection of the doctor's; raises PostgresAway."""
    limits = {"statement_timeout": "10000", "lock_timeout": "2000"}
    try:
        return psycopg.connect(
            conninfo_for(url, "doctor", limits), autocommit=True, connect_timeout=CONNECT_S
        )
    except psycopg.Error as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        if any(word in str(error) for word in OUT_OF_CONNECTIONS):
            said = first.partition("FATAL:")[2].strip() or first
            raise PostgresFull(
                f"{shown(url)} is up, but has no connection left ({said}). "
                "Rajada waits for one; nothing is lost. Raise max_connections, put a pooler before the CRM's "
                "programs, or end idle ones: as a superuser, look at pg_stat_activity."
            ) from error
        raise PostgresAway(f"{shown(url)} does not answer: {first}") from error


def is_prepared(connection: Connection) -> bool:
    """Whether the CRM's and our tables are there at all."""
    row = connection.execute(
        "SELECT to_regclass('event_log') IS NOT NULL AND to_regclass('rajada.sink_offsets') IS NOT NULL"
    ).fetchone()
    return row == (True,)


def postgres_checks(connection: Connection, url: str, settings: Settings) -> dict[str, Check]:
    """The checks, by name."""
    return {
        "version": lambda: version(connection.info.server_version, shown(url)),
        "clock": lambda: clock(connection),
        "tables": lambda: _tables(connection, url),
        "migrations": lambda: migrations(pending(url, crm=whose_tables(url))),
        "columns": lambda: shape(plan(url, crm=whose_tables(url))),
        "event log": lambda: _event_log(connection),
        "indexes": lambda: decision_plans(connection),
        "connections": lambda: connections(connection),
        "rights": lambda: rights(connection),
        "other consumers": lambda: others(look(connection, settings), settings),
    }


def connections(connection: Connection) -> Verdict:
    """How many more clients the server takes: the worker's and the sink's wait when there are none."""
    row = connection.execute(load("doctor_connections")).fetchone()
    assert row is not None
    used, most, reserved, ours = (int(str(one)) for one in row)
    return room(used, most - reserved, ours)


def room(used: int, most: int, ours: int) -> Verdict:
    """What so many connections mean, of so many that ordinary roles may make; `ours` of them are Rajada's."""
    left = most - used
    found = f"{used} of {most} are used, {ours} of them by Rajada"
    if left >= FEW_CONNECTIONS:
        return ok(found)
    advice = (
        "raise max_connections, put a pooler before the CRM's programs, or end idle ones (pg_stat_activity)"
    )
    return warn(f"{found}: {max(left, 0)} are left", advice)


def version(number: int, where: str) -> Verdict:
    """Row filters of publications came with Postgres 15; `number` is libpq's (150004)."""
    found = f"Postgres {number // 10_000}.{number % 10_000} at {where}"
    return ok(found) if number >= LEAST_SERVER_VERSION else fail(found, "upgrade it to Postgres 15 or newer")


def clock(connection: Connection) -> Verdict:
    """How far the database's clock is from this machine's; half of the answer's way counts as unknown."""
    before = time.time()
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    after = time.time()
    assert row is not None
    return skew(float(str(row[0])) - (before + after) / 2, (after - before) / 2)


def skew(ahead_s: float, unsure_s: float) -> Verdict:
    """What a difference of clocks means; `ahead_s` > 0: the database is ahead of this machine."""
    found = f"Postgres is {abs(ahead_s) * 1000:.0f} ms {'ahead of' if ahead_s > 0 else 'behind'} this machine"
    if abs(ahead_s) - unsure_s > SKEW_S:
        return warn(found, "let both follow NTP: windows are cut short or held up by the difference")
    return ok(found)


def _tables(connection: Connection, url: str) -> Verdict:
    crm: Crm = whose_tables(url)
    missing = missing_columns(connection)
    if not missing:
        return ok("an existing CRM's" if crm == "existing" else "our own")
    if crm == "ours":
        return fail(f"{len(missing)} tables or columns are missing", MIGRATE)
    return fail(
        f"the CRM lacks {', '.join(missing[:8])}{' …' if len(missing) > 8 else ''}",
        "point DATABASE_URL at the CRM's database (and its search_path at the CRM's schema)",
    )


def migrations(left: Sequence[str]) -> Verdict:
    """Whether everything that was shipped is applied."""
    if left:
        more = " …" if len(left) > 3 else ""
        return fail(f"{len(left)} not applied: {', '.join(left[:3])}{more}", MIGRATE)
    return ok("all applied")


def shape(steps: Sequence[str]) -> Verdict:
    """Whether what the migrations made is still there: columns, tables, trigger, indexes."""
    if steps:
        more = f" and {len(steps) - 3} more" if len(steps) > 3 else ""
        return fail(f"missing: {'; '.join(steps[:3])}{more}", MIGRATE)
    return ok("columns, tables, trigger and indexes are there")


def _event_log(connection: Connection) -> Sequence[Verdict]:
    row = connection.execute(load("doctor_event_log"), {"table": TABLE, "trigger": TRIGGER}).fetchone()
    if row is None:
        return [fail("there is no event_log", MIGRATE)]
    identity, has_key, trigger, _ = row
    fires = trigger_state(None if trigger is None else str(trigger))
    return [fires, *replica_identity(str(identity), bool(has_key))]


def trigger_state(state: str | None) -> Verdict:
    """Whether the trigger that fills partition_key fires; `state` as in pg_trigger.tgenabled."""
    if state in ("O", "A"):
        return ok(f"the trigger {TRIGGER} fires")
    what = "is missing" if state is None else "is switched off"
    advice = MIGRATE if state is None else f"ALTER TABLE {TABLE} ENABLE TRIGGER {TRIGGER}"
    return warn(f"the trigger {TRIGGER} {what}: the publisher computes the keys itself", advice)


def replica_identity(identity: str, has_key: bool) -> list[Verdict]:
    """Only inserts are published, which needs no identity; other publications of the table may need one."""
    if identity == "n" or (identity == "d" and not has_key):
        return [
            warn(
                f"{TABLE} has no replica identity: fine for us, but a publication of its updates would make "
                "the CRM's updates fail",
                f"give {TABLE} a primary key, or ALTER TABLE {TABLE} REPLICA IDENTITY FULL",
            )
        ]
    return []


def others(signs: Sequence[Sign], settings: Settings) -> list[Verdict]:
    """Whether somebody else works on our events or jobs, or left some that nobody will finish."""
    run_by = settings.jobs_run_by
    at_work, left = in_the_way(signs, run_by), left_behind(signs, run_by)
    found = []
    if at_work:
        found.append(
            fail(
                f"at work: {told(at_work)}. The worker does not start beside them", cut_over(at_work, run_by)
            )
        )
    if left:
        found.append(warn(f"left behind: {told(left)}", "nobody finishes them by itself: docs/cut-over.md"))
    return found or [ok("none" + (" (jobs are run by the CRM's own workers)" if run_by == "table" else ""))]
