"""The alert pass: now and then the inbox is compared with what is wrong (spec/jobs.md, "Alerts").

The sink alerts as it goes; the pass sees to what can't be seen there. It opens what is missing (an alert
that could not be written), resolves what has healed, and looks at the machine room. One sink at a time does
it, by a lease, on a connection and a thread of its own: neither a slow look nor a failing one holds an
outcome up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import psycopg
import structlog

from db.graves import GravesUnknown
from db.leases import Lease, new_holder
from db.pool import conninfo_for
from db.publisher import EVENT_TYPES
from db.queries import load
from schemas import alert_texts
from schemas.alert_catalogue import FAMILIES
from settings import Language, RajadaError, Settings
from sinks.alerts import note_conditions, raise_alerts
from sinks.offsets import Database
from sinks.raised import counted, trouble
from sinks.rows import AlertRow, TroubleRow, as_json
from sinks.seen import Seen
from sinks.watches import Watch, watches

log = structlog.get_logger(__name__)

LEASE: Final = "alerts"
LEASE_S: Final = 120.0
REST: Final = 0.9
"""Share of the interval in which no other sink begins a round."""
_SESSION: Final = {
    "statement_timeout": "20s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
}


class Passes:
    """Rounds of the pass for as long as `run` runs."""

    def __init__(self, url: str, bootstrap: str, settings: Settings) -> None:
        self._conninfo = conninfo_for(url, "sink-alerts", _SESSION)
        self._every_s = settings.alerts_every_s
        self._holder = new_holder()
        self.seen = Seen(settings.alerts_every_s)
        """What the last round of this process saw."""
        self._round = Round(settings.language, watches(bootstrap, settings, self.seen), self.seen)

    def run(self, stop: threading.Event) -> None:
        """A round every interval until `stop` is set; whatever goes wrong is told, and the next one tries."""
        while not stop.wait(self._every_s):
            try:
                self._once()
            except (psycopg.Error, OSError, RajadaError) as error:
                log.warning("alert_pass_failed", error=type(error).__name__)
            except Exception:  # a safety net: its own defect must not stop the sink
                log.exception("alert_pass_defect")

    def _once(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as database:
            lease = Lease(database, LEASE, self._holder, LEASE_S)
            if lease.take() is None:
                return
            try:
                self._round.make(database)
            finally:
                lease.release(rest_s=self._every_s * REST)


class Round:
    """What one round does; each step is a transaction, and a step that fails leaves the others alone."""

    def __init__(self, language: Language, looked_at: list[Watch], seen: Seen | None = None) -> None:
        self._seen = seen
        self._language = language
        self._watches = looked_at

    def make(self, database: Database) -> None:
        """Heal, look, open what is missing, resolve. Raises psycopg.Error when the connection is lost."""
        steps: list[Callable[[Database], None]] = [_heal, self._strangers]
        steps += [self._watching(watch) for watch in self._watches]
        steps += [_open_missing, _resolve, self._count]
        for step in steps:
            try:
                with database.transaction():
                    step(database)
            except (psycopg.Error, GravesUnknown) as error:
                if database.closed or database.broken:
                    raise
                sqlstate = error.sqlstate if isinstance(error, psycopg.Error) else None
                log.warning("alert_pass_step_failed", error=type(error).__name__, sqlstate=sqlstate)

    def _count(self, database: Database) -> None:
        """What is open now, for whoever scrapes."""
        if self._seen is not None:
            kinds = sorted({one.kind for one in FAMILIES.values()})
            found = database.execute(load("alerts_counts"), {"kinds": kinds}).fetchall()
            self._seen.alerts = dict.fromkeys(kinds, 0) | {str(kind): int(count) for kind, count in found}
            self._seen.looked()

    def _strangers(self, database: Database) -> None:
        """Events that another system gave up: their alerts are to be resolved like ours."""
        found = database.execute(load("alerts_strangers"), {"event_types": list(EVENT_TYPES)}).fetchall()
        rows = [self._stranger(*row) for row in found]
        if rows:
            database.execute(load("alerts_strangers_note"), {"rows": as_json(rows)})

    def _stranger(
        self,
        event_id: str,
        organization_id: str,
        event_type: str,
        outcome: str | None,
        attempts: int,
        error: str | None,
    ) -> TroubleRow:
        alert = alert_texts.event_dead(event_type, outcome or "?", attempts, event_id, error, self._language)
        return trouble(alert, organization_id, "event", event_id, said_at_ms=0)

    def _watching(self, watch: Watch) -> Callable[[Database], None]:
        def look(database: Database) -> None:
            seen = watch.look(database)
            values = {"watch": watch.name, "seen": [row.id for row in seen]}
            database.execute(load("alerts_watched"), values)
            raise_alerts(database, counted(note_conditions(database, seen)))

        return look


def _heal(database: Database) -> None:
    row = database.execute(load("alerts_heal")).fetchone()
    if row is not None and row[0]:
        log.info("troubles_healed", count=row[0])


def _open_missing(database: Database) -> None:
    missing = [AlertRow(*row) for row in database.execute(load("alerts_untold")).fetchall()]
    if missing:
        log.warning("alerts_missing", kinds=sorted({row.kind for row in missing}))
        raise_alerts(database, counted(missing))  # in the order in which everybody takes the locks


def _resolve(database: Database) -> None:
    families = [(one.kind, title) for name, one in FAMILIES.items() for title in alert_texts.titles(name)]
    values = {"kinds": [kind for kind, _ in families], "titles": [title for _, title in families]}
    resolved = database.execute(load("alerts_resolve"), values).fetchall()
    if resolved:
        log.info("alerts_resolved", kinds=sorted({str(kind) for _, _, kind in resolved}), count=len(resolved))
