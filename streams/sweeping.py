"""The sweep at work: claim a page of events in Postgres, publish it again, wait until it is durable.

One round at a time in an installation, by a lease in database time. Everything here blocks: the worker runs
it in a thread. A claim is noted before the page is sent, so a crash in between delays those events by one
backoff and doubles nothing; what could not be sent is given back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from db.outlet import Outlet, SendFailed
from db.publisher import EventRecord
from db.sweep_claims import Claims, Conditions
from db.table_rows import StoredRow
from settings import Settings
from streams import topics
from streams.events import REPLAY
from streams.lag import Lags
from streams.sweep import (
    CONSUMER,
    FIRST_BACKOFF_S,
    KEPT_DAYS,
    LONGEST_BACKOFF_S,
    PAGE,
    SWEPT,
    Lag,
    brake,
)
from streams.unpublished import outcome_of_too_large

DURABLE_S: Final = 60.0
"""A page that Kafka has not taken after this is given back."""
STOPPING_S: Final = 1.0
"""As long as Kafka answers within this, a stop lets the page that is under way end."""


@dataclass(slots=True)
class Round:
    """What came of one round."""

    published: int = 0
    pages: int = 0
    by_type: dict[str, int] = field(default_factory=dict)
    ended: bool = False
    """Nothing was left."""
    held: str | None = None
    """Why it stopped before that: who is behind."""
    busy: bool = False
    """Another process sweeps, or has swept lately."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a round goes on; the worker's is the default."""

    most_pages: int | None = None
    """End after so many; None = when nothing is left."""
    page: int = PAGE
    rest_s: float = 0.0
    """How long after its start no other process begins a round."""
    by_hand: bool = False
    """Begin also while the last round rests."""
    before_page: Callable[[int], None] = lambda _: None
    """Called with a page's size before it is sent: a limit of the rate sleeps here."""
    after_page: Callable[[Round], None] = lambda _: None


class Sweeper:
    """Sweeps one installation; any number of them may exist, one works at a time.

    Args:
        bootstrap: Kafka's host:port list.
        settings: the topics' prefix and the sweep's limits.
        stop: set = end as soon as possible.
    """

    def __init__(self, bootstrap: str, settings: Settings, stop: threading.Event) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._stop = stop
        self._obituary = partial(outcome_of_too_large, language=settings.language)

    def held(self, claims: Claims) -> str | None:
        """Why nothing may be published again now; None: nothing speaks against it.

        Raises psycopg.Error, LagUnknown.
        """
        return self._held(claims, Lags(self._bootstrap))

    def round(self, claims: Claims, conditions: Conditions, pace: Pace) -> Round:
        """Publish what is due, page by page, while nobody is behind.

        Raises psycopg.Error, LagUnknown, KafkaNotReady or SendFailed; what was not published is given back.
        """
        done, began = Round(), time.monotonic()
        backoff_s = (FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
        if not claims.begin(conditions, backoff_s, pace.page, by_hand=pace.by_hand):
            done.busy = True
            return done
        try:
            if claims.waiting(conditions):
                self._publish(claims, pace, done)
            else:
                done.ended = True
        finally:
            claims.end(rest_s=max(0.0, pace.rest_s - (time.monotonic() - began)), kept_days=KEPT_DAYS)
        return done

    def _publish(self, claims: Claims, pace: Pace, done: Round) -> None:
        lags = Lags(self._bootstrap)
        outlet: Outlet | None = None
        try:
            while done.pages != pace.most_pages and not self._stop.is_set():
                done.held = self._held(claims, lags)
                if done.held is not None:
                    return
                outlet = outlet or Outlet(self._bootstrap, self._settings, obituary=self._obituary)
                rows = claims.next_page()
                if not rows:
                    done.ended = True
                    return
                self._send(claims, outlet, rows, pace)
                done.pages += 1
                done.published += len(rows)
                for row in rows:
                    done.by_type[row.record.event_type] = done.by_type.get(row.record.event_type, 0) + 1
                pace.after_page(done)
        finally:
            if outlet is not None:
                outlet.close()

    def _send(self, claims: Claims, outlet: Outlet, rows: Sequence[StoredRow], pace: Pace) -> None:
        """Publish a page and wait until all of it is durable; what is not is given back."""
        left = {row.id for row in rows}
        try:
            pace.before_page(len(rows))
            deadline = time.monotonic() + DURABLE_S
            for row in rows:
                while not outlet.send(_again(row), partial(left.discard, row.id)):
                    self._pump(outlet, deadline)
            while left:
                self._pump(outlet, deadline)
        finally:
            if left:
                claims.give_back(left)

    def _pump(self, outlet: Outlet, deadline: float) -> None:
        stopping = self._stop.is_set()
        served = outlet.pump(STOPPING_S if stopping else 0.1)
        if (stopping and not served) or time.monotonic() > deadline:
            raise SendFailed("Kafka has not taken all that was swept; the rest comes up again")

    def _held(self, claims: Claims, lags: Lags) -> str | None:
        limit_s, topic = self._settings.sweep_max_lag_s, self._settings.topic
        found = [
            Lag("worker", topic(one.topic), lags.of_group(topic(one.topic), topic(one.group), limit_s))
            for one in SWEPT
        ]
        outcomes = topic(topics.OUTCOMES)
        written = claims.written(lags.topic_id(outcomes))
        found.append(Lag("sink", outcomes, lags.of_offsets(outcomes, written, limit_s)))
        return brake(found, limit_s)


def conditions(settings: Settings, *, since: datetime | None = None, at_once: bool = False) -> Conditions:
    """What is swept under these settings; `since` and `at_once` as in `Conditions`."""
    return Conditions([one.event_type for one in SWEPT], CONSUMER, settings.event_reap_ms, since, at_once)


def _again(row: StoredRow) -> EventRecord:
    """The record as the publisher made it, with the replay number that the row's outcome had."""
    if row.outcome_replay > 0:
        row.record.headers.append((REPLAY, b"%d" % row.outcome_replay))
    return row.record
