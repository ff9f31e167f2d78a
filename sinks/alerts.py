"""Inbox items: one open a family, counted (spec/jobs.md, "Alerts"). Failing to alert stops nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

import psycopg
import structlog
from psycopg import errors

from db.pool import is_away
from db.queries import load
from sinks.offsets import Database
from sinks.raised import alert_of
from sinks.rows import AlertRow, TroubleRow, as_json
from sinks.seen import FAILED, RAISED

log = structlog.get_logger(__name__)


def raise_alerts(database: Database, alerts: Iterable[AlertRow]) -> None:
    """Open or count up each alert inside the running transaction, each in a savepoint of its own.

    Only a lost connection gets out, since it ends the transaction anyway. An alert that can't be written is
    logged; the periodic pass opens what is missing.
    """
    for alert in alerts:
        try:
            _raise_one(database, alert)
        except errors.ForeignKeyViolation:
            # The organization is not in this database: better the platform sees it than nobody.
            _raise_for_platform(database, alert)
        except psycopg.Error as error:
            _unless_away(error, alert)


def note_conditions(database: Database, conditions: Sequence[TroubleRow]) -> list[AlertRow]:
    """Note conditions that last inside the running transaction; returns the alerts of those that are new."""
    if not conditions:
        return []
    told = database.execute(load("sink_conditions"), {"rows": as_json(conditions)}).fetchall()
    owners = {str(name): owner for name, owner in told if name is not None}
    return [replace(alert_of(row), organization_id=owners[row.id]) for row in conditions if row.id in owners]


def _raise_for_platform(database: Database, alert: AlertRow) -> None:
    try:
        _raise_one(database, replace(alert, organization_id=None))
    except psycopg.Error as error:
        _unless_away(error, alert)


def _raise_one(database: Database, alert: AlertRow) -> None:
    values = asdict(alert)
    try:
        with database.transaction():
            database.execute(load("sink_alert_lock"), values)
            database.execute(load("sink_alert"), values)
        RAISED[alert.kind] += 1
    except errors.UniqueViolation:
        # An existing CRM may allow one open item by an index of its own: then one is open already.
        log.info("alert_already_open", kind=alert.kind)


def _unless_away(error: psycopg.Error, alert: AlertRow) -> None:
    if is_away(error):
        raise error
    FAILED[alert.kind] += 1
    log.error("alert_failed", kind=alert.kind, error=type(error).__name__, sqlstate=error.sqlstate)
