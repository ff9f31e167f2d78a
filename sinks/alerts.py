"""Inbox items: one open a family, counted (spec/jobs.md, "Alerts"). Failing to alert stops nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

import psycopg
import structlog
from psycopg import errors

from db.pool import is_away
from db.queries import load
from sinks.offsets import Database
from sinks.rows import AlertRow

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
    except errors.UniqueViolation:
        # An existing CRM may allow one open item by an index of its own: then one is open already.
        log.info("alert_already_open", kind=alert.kind)


def _unless_away(error: psycopg.Error, alert: AlertRow) -> None:
    if is_away(error):
        raise error
    log.error("alert_failed", kind=alert.kind, error=type(error).__name__, sqlstate=error.sqlstate)
