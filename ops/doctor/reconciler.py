"""Whether stuck instances are looked for: schema `connect`, and its schedule (docs/reconciler.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from db.queries import load
from db.replication import Connection
from ops.doctor.findings import Check, Verdict, fail, ok, warn
from ops.numbers import several
from settings import Settings
from streams.reconcile.ledger import SCHEDULE
from streams.reconcile.workshop import schedule_of

NAMES: Final = ("schema connect", "schedule")
SILENT_S: Final = 60.0
"""A reconciler looks every 15 s."""
_MIGRATE: Final = "run `rajada migrate`"
START: Final = "start it: `faust -A streams.reconcile worker --without-web` or `rajada up`"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the database tells of a schedule and its newest run; times in s, until now."""

    silent_s: float | None
    fired: int
    skipped: int
    missed: int
    state: str | None
    error: str | None
    began_s: float | None
    open: int


def reconciler_checks(connection: Connection, settings: Settings) -> dict[str, Check]:
    """The checks, by name."""

    def of_schedule() -> Verdict:
        if not _is_there(connection):
            return fail("schema connect is not there", _MIGRATE)
        schedule_of(settings)  # one that can't be read is told by its own error
        row = connection.execute(load("doctor_reconciler"), {"schedule": SCHEDULE}).fetchone()
        # the file says which columns
        return schedule(Seen(*row) if row is not None else None, settings.reconcile_cron)  # type: ignore[arg-type]

    return {NAMES[0]: lambda: schema(_is_there(connection)), NAMES[1]: of_schedule}


def schema(there: bool) -> Verdict:
    """Whether the reconciler's tables and functions are there."""
    if not there:
        return fail("its tables or functions are not there: nobody looks for stuck instances", _MIGRATE)
    return ok("tables, views and functions are there")


def schedule(seen: Seen | None, cron: str) -> Verdict:
    """Whether somebody looks at the schedule, and how the newest run ended."""
    if seen is None or seen.silent_s is None:
        return warn("no reconciler has looked at it yet: stuck instances stay as they are", START)
    counted = (
        f"{several(seen.fired, 'run')}, {several(seen.skipped, 'tick')} skipped, {seen.missed:,} missed, "
        f"{several(seen.open, 'notification')} open"
    )
    if seen.silent_s > SILENT_S:
        return warn(f"no reconciler looks at it since {seen.silent_s:,.0f} s ({counted})", START)
    if seen.state in ("failed", "lost"):
        told = f": {seen.error}" if seen.error else ""
        return warn(
            f"its newest run is {seen.state}{told} ({counted})",
            "the next one goes on from there; `rajada reconcile --history` and `rajada logs reconciler` tell "
            "more",
        )
    return ok(f"looked at {seen.silent_s:.0f} s ago, `{cron}`; {counted}")


def _is_there(connection: Connection) -> bool:
    row = connection.execute(
        "SELECT to_regclass('connect.schedules') IS NOT NULL"
        " AND to_regclass('connect.active_notifications') IS NOT NULL"
        " AND to_regprocedure('connect.reserve_whatsapp_reconciliation_lease(integer, text, interval)')"
        " IS NOT NULL AND to_regprocedure('connect.rebuild_all_system_notifications(integer)') IS NOT NULL"
    ).fetchone()
    return row == (True,)
