"""The desk of the live page, over what the commands do (`web.pages.desk` says what is asked of it)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Literal

from db.runs import connect
from ops import alerts as inbox
from ops.asking import asking
from ops.errors import NotFound, NotYet
from ops.job_rows import Which
from ops.moments import now_ms
from ops.orders import Orders, Refused
from ops.pages import letters, rows, shadow
from ops.pages.following import Following
from ops.pages.lags import ReadersLag
from ops.why.visit import why
from settings import RajadaError, Settings
from web.pages.desk import Declined, Missing, Order
from web.pages.told import (
    Actor,
    Alert,
    Current,
    Delays,
    Instances,
    Job,
    Letters,
    Opened,
    Overview,
    Shadow,
    Story,
    Told,
    Windows,
)

ALERTS: Final = 200
AT_A_GLANCE: Final = 5
WAIT_S: Final = 3.0
"""For what comes of an order, before somebody is told that it is under way."""
NO_KAFKA: Final = (
    "Kafka is not named (KAFKA_BOOTSTRAP_SERVERS): what comes in, windows and letters are not shown."
)


class PageDesk:
    """Asks the servers. For any thread.

    Args:
        url: libpq URL.
        settings: of the installation, with Kafka where there is one.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._lock = threading.Lock()
        self._following: Following | None = None
        self._lags: ReadersLag | None = None

    def overview(self, whose: str | None) -> Overview:
        """Everything at a glance; what can't be asked is left out, with a note."""
        notes: list[str] = []
        came, minutes = self._came(whose, notes)
        found: dict[str, Any] = {}
        with _noted(notes), rows.reading(self._url) as connection:
            asked: dict[str, Callable[[], object]] = {
                "coming": lambda: rows.coming(connection, came),
                "events": lambda: rows.event_counts(connection, whose),
                "jobs": lambda: rows.job_counts(connection, whose),
                "links": lambda: rows.link_counts(connection, whose),
            }
            if whose is None:  # what is of the platform is nobody else's business
                asked |= {"slots": lambda: rows.slots(connection), "runs": lambda: rows.runs(connection)}
            for name, ask in asked.items():
                with _noted(notes), asking(self._url):
                    found[name] = ask()
        with _noted(notes):
            found["alerts"] = self.alerts(whose, False)[:AT_A_GLANCE]
        if whose is None and self._settings.kafka_bootstrap_servers:
            with _noted(notes):
                found["lags"] = self._readers().now()
        told = notes if whose is None else ["Not everything is known now."] * bool(notes)
        return Overview(at_ms=now_ms(), minutes=minutes, notes=list(dict.fromkeys(told)), **found)

    def jobs(self, whose: str | None, status: str | None, kind: str | None, most: int) -> Sequence[Job]:
        """Jobs, the newest first. Raises OpsError."""
        which = Which(
            statuses=[status] if status else None,
            kinds=[kind] if kind else None,
            organizations=_one(whose),
        )
        return rows.jobs(self._url, which, most)

    def job(self, whose: str | None, job_id: str) -> Job | None:
        """One job by its row. Raises OpsError."""
        return next(iter(rows.jobs(self._url, Which(ids=[job_id], organizations=_one(whose)), 1)), None)

    def order(self, actor: Actor, action: Order, job_id: str, order_id: str, reason: str) -> str:
        """Order something of a job, and wait a moment for it. Raises Missing, Declined, OpsError."""
        orders = Orders(self._settings, self._bootstrap(), self._url, by=actor.id)
        with _told():
            orders.refuse_if_table()
            with asking(self._url):
                connection = connect(self._url, "live-orders")
            with connection:
                place, _ = orders.meant(connection, action, job_id, order_id)
                if actor.whose not in (None, place.organization_id):
                    raise Missing(f"There is no job {job_id}.")
                written = orders.to_job(connection, action, job_id, order_id, reason or None)
                try:
                    came = orders.wait_for_job(connection, written, WAIT_S)
                except NotYet:
                    return "It is ordered, and counts once the job's worker reads it; the story tells when."
        if came.outcome.startswith("awaited:"):
            return "No worker has the job yet; the order waits for it up to 24 hours."
        if came.outcome.startswith("noted:"):
            return "The job is running; the order counts when this attempt has ended."
        return f"It is done: {came.outcome.replace('_', ' ')}, now {came.status}."

    def alerts(self, whose: str | None, everything: bool) -> Sequence[Alert]:
        """The alerts that are not resolved, or all. Raises OpsError."""
        statuses: tuple[inbox.Status, ...] = inbox.STATUSES if everything else ("open", "ack")
        return [_alert(one) for one in inbox.alerts(self._url, statuses, _one(whose), ALERTS)]

    def deal_with(self, actor: Actor, alert_id: str, status: Literal["ack", "resolved"]) -> str:
        """Acknowledge or resolve an alert. Raises Missing, OpsError."""
        with _told():
            done = inbox.deal_with(self._url, alert_id, status, actor.whose)
        return f"{done.title}: {done.status}"

    def story(self, whose: str | None, asked: str) -> Story:
        """The story of an id, as `rajada why` tells it. Raises OpsError."""
        found = why(self._url, self._settings.kafka_bootstrap_servers or "", self._settings, asked, whose)
        return Story(
            asked=found.asked,
            kind=found.kind,
            found=found.found,
            ids=dict(found.ids),
            steps=[Told(one.at_ms, one.title, one.level, one.details, one.events) for one in found.steps],
            left_out=found.left_out,
            now=[Current(one.about, rows.untimed(one.text), one.at_ms) for one in found.now],
            looked_at=found.looked_at,
            notes=found.notes if whose is None else (),
        )

    def letters(
        self, whose: str | None, *, parking: bool, closed: bool, reason: str | None, most: int
    ) -> Letters:
        """Dead letters, the newest first. Raises OpsError."""
        return letters.listed(self._settings, whose, parking=parking, closed=closed, reason=reason, most=most)

    def letter(self, whose: str | None, place: str, *, unmasked: bool) -> Opened:
        """One letter. Raises Missing, OpsError."""
        return letters.opened(self._settings, whose, place, unmasked=unmasked)

    def requeue(self, actor: Actor, place: str, reason: str) -> str:
        """Send a letter again. Raises Missing, Declined, OpsError."""
        return letters.requeue(self._settings, actor, place, reason)

    def drop(self, actor: Actor, place: str, reason: str) -> str:
        """Give a letter up. Raises Missing, Declined, OpsError."""
        return letters.drop(self._settings, actor, place, reason)

    def windows(self, whose: str | None) -> Windows:
        """Open windows and lanes, as far as they were read."""
        following = self._follower()
        if following is None:
            return Windows(now_ms(), (), 0, (), 0, complete=False, note=NO_KAFKA)
        found = following.windows(whose)
        known = found.note is None or whose is None
        return found if known else replace(found, note="What the worker holds is not known now.")

    def delays(self, whose: str | None) -> Delays:
        """What waits for its time. Raises OpsError."""
        return rows.delays(self._url, whose, 50)

    def shadow(self, whose: str | None, hours: int) -> Shadow:
        """What a shadow decided beside the old drain. Raises Missing, OpsError."""
        with _told():
            return shadow.seen(self._url, self._bootstrap(), self._settings, whose, hours)

    def instances(self, whose: str | None) -> Instances:
        """Instances and runs. Raises OpsError."""
        return rows.instances(self._url, whose)

    def close(self) -> None:
        """End what runs in the background."""
        if self._following is not None:
            self._following.close()

    def _came(self, whose: str | None, notes: list[str]) -> tuple[Sequence[Any], Sequence[int]]:
        following = self._follower()
        if following is None:
            notes.append(NO_KAFKA)
            return (), ()
        came, minutes, note = following.coming(whose)
        if note is not None:
            notes.append(note)
        return came[:20], minutes

    def _follower(self) -> Following | None:
        with self._lock:
            if self._following is None and self._settings.kafka_bootstrap_servers:
                self._following = Following(self._settings.kafka_bootstrap_servers, self._settings)
            return self._following

    def _readers(self) -> ReadersLag:
        with self._lock:
            if self._lags is None:
                self._lags = ReadersLag(self._bootstrap(), self._url, self._settings)
            return self._lags

    def _bootstrap(self) -> str:
        return self._settings.bootstrap()


@contextmanager
def _noted(notes: list[str]) -> Iterator[None]:
    """What goes wrong inside becomes a note."""
    try:
        yield
    except RajadaError as error:
        notes.append(str(error))


@contextmanager
def _told() -> Iterator[None]:
    """What commands raise, as the page knows it."""
    try:
        yield
    except NotFound as error:
        raise Missing(str(error)) from error
    except Refused as error:
        raise Declined(str(error)) from error


def _alert(alert: inbox.Alert) -> Alert:
    created_ms = int(alert.created_at.timestamp() * 1000)
    last = alert.last_seen_at or alert.created_at
    return Alert(
        id=alert.id,
        organization_id=alert.organization_id,
        title=alert.title,
        body=alert.body,
        status=alert.status,
        occurrences=alert.occurrences,
        created_ms=created_ms,
        last_ms=int(last.timestamp() * 1000),
        about=alert.ref_id,
    )


def _one(whose: str | None) -> list[str] | None:
    return [whose] if whose is not None else None
