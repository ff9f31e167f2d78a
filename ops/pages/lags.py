"""How far the readers of our topics are behind, for the page."""

from __future__ import annotations

import threading
import time
from typing import Final

from db.queries import load
from ops.pages.rows import reading
from settings import Settings
from streams import topics
from streams.delays.process import GROUP as DELAYS_GROUP
from streams.due import DELAY_TOPICS
from streams.lag import Lags
from streams.sweep import Position
from web.pages.told import Lag

LATE_S: Final = 60.0
"""What counts as behind; the page shows records alone."""
TIMES_ITS_COST: Final = 10
"""For how many times as long as it took an answer is told."""
READ: Final = (topics.SOURCE, topics.GROUP_LINKS, topics.JOBS, topics.CONTROL)
"""What the worker reads."""


class ReadersLag:
    """Asks Kafka and Postgres; one client for all questions."""

    def __init__(self, bootstrap: str, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._lags = Lags(bootstrap)
        self._lock = threading.Lock()
        self._known: tuple[float, list[Lag]] = (0.0, [])

    def now(self) -> list[Lag]:
        """Of each reader and topic, a moment old. Raises LagUnknown, OpsError."""
        with self._lock:
            begun = time.monotonic()
            if begun >= self._known[0]:
                found = self._ask()
                now = time.monotonic()
                self._known = now + TIMES_ITS_COST * (now - begun), found
            return self._known[1]

    def _ask(self) -> list[Lag]:
        topic = self._settings.topic
        found = [
            self._of("worker", name, self._lags.of_group(topic(name), topic(topics.APP_ID), LATE_S))
            for name in READ
        ]
        if self._settings.jobs_run_by != "table":
            waiting = [
                position
                for name in DELAY_TOPICS
                for position in self._lags.of_group(topic(name), topic(DELAYS_GROUP), LATE_S)
            ]
            found.append(self._of("delays (waiting)", f"{topics.DELAY}.*", waiting))
        found.append(self._of("sink", topics.OUTCOMES, self._of_sink(topic(topics.OUTCOMES))))
        return found

    def _of_sink(self, outcomes: str) -> list[Position]:
        topic_id = self._lags.topic_id(outcomes)
        with reading(self._url) as connection:
            rows = connection.execute(load("sweep_sink"), {"topic_id": topic_id}).fetchall()
        written = {int(row[0]): int(row[1]) for row in rows}
        return self._lags.of_offsets(outcomes, written, LATE_S)

    def _of(self, reader: str, topic: str, positions: list[Position]) -> Lag:
        return Lag(reader, topic, sum(one.unread for one in positions), len(positions))
