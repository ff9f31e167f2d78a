"""A steady stream of messages, and how long beyond its window each one's job took to stand in Postgres.

Messages are written in the order of their times by a thread of its own, those that are due together in one
statement; `Beyond.paced` tells whether it kept up. A reader asks for jobs of windows that may have closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from bench.backlog import Wrong
from bench.commits import events_in_jobs
from ops.clinic import Clinic, Message, Patient

READ_EVERY_S = 0.003
TICK_S = 0.01
"""Messages that are due within a tick are written together."""
BURST_S = 0.6
"""How long a burst's messages take; shorter than a window."""
ASKED = 2_000
PATIENCE_S = 60.0
_SEEN = """
SELECT source_event_id::text FROM job_queue WHERE organization_id = %s AND source_event_id = ANY (%s)
"""


@dataclass(frozen=True, slots=True)
class Stream:
    """What is written: `rate` messages a second, for so long, `per_window` to each conversation's window."""

    rate: float
    seconds: float
    per_window: int = 1

    @property
    def messages(self) -> int:
        """How many in all."""
        return max(1, int(self.rate * self.seconds)) // self.per_window * self.per_window

    @property
    def windows(self) -> int:
        """How many windows, and so jobs, they are; as many conversations are needed."""
        return self.messages // self.per_window

    def conversation(self, number: int) -> int:
        """Whose turn it is at the n-th message: some conversations write in turn, then the next ones do."""
        together = max(1, int(self.rate * BURST_S) // self.per_window)
        wave, place = divmod(number, together * self.per_window)
        return min(wave * together + place % together, self.windows - 1)


@dataclass(frozen=True, slots=True)
class Beyond:
    """What became of a stream."""

    ms: tuple[float, ...]
    """Of each window's first message: from before its INSERT until its job's row is seen, less the window."""
    paced: float
    """Messages a second that were really written."""
    doubled: int
    """Events of the whole database that are in a second job, too."""


def measure(url: str, clinic: Clinic, patients: Sequence[Patient], stream: Stream, window_ms: int) -> Beyond:
    """Write the stream, a window for each of `patients`, and wait for all of its jobs.

    Raises bench.backlog.Wrong when a message has no job for a minute.
    """
    waiting: dict[str, float] = {}
    lock, wrote = threading.Lock(), [0.0]
    writer = threading.Thread(
        target=_write, args=(url, clinic, patients, stream, waiting, lock, wrote), daemon=True
    )
    writer.start()
    beyond: list[float] = []
    with psycopg.connect(url, autocommit=True) as connection:
        while writer.is_alive() or waiting:
            now = time.monotonic()
            with lock:
                due = [one for one, at in waiting.items() if now - at >= window_ms / 1000][:ASKED]
            seen = connection.execute(_SEEN, [clinic.organization_id, due]).fetchall() if due else []
            now = time.monotonic()
            with lock:
                beyond += [(now - waiting.pop(str(one))) * 1000 - window_ms for (one,) in seen]
                oldest = min(waiting.values(), default=now)
            if now - oldest > PATIENCE_S:
                raise Wrong(f"{len(waiting)} messages have no job after {PATIENCE_S:.0f} s")
            time.sleep(READ_EVERY_S)
    if len(beyond) != stream.windows:
        raise Wrong(f"{len(beyond)} of {stream.windows} windows were written")
    in_jobs, different = events_in_jobs(url)
    paced = stream.messages / max(wrote[0], stream.seconds)
    return Beyond(tuple(beyond), paced, in_jobs - different)


def _write(
    url: str,
    clinic: Clinic,
    patients: Sequence[Patient],
    stream: Stream,
    waiting: dict[str, float],
    lock: threading.Lock,
    wrote: list[float],
) -> None:
    begun, written, opened = time.monotonic(), 0, set[int]()
    with psycopg.connect(url, autocommit=True) as connection:
        while written < stream.messages:
            now = time.monotonic()
            due = min(stream.messages, int((now - begun) * stream.rate) + 1)
            turns = [stream.conversation(number) for number in range(written, due)]
            if turns:
                rows = clinic.write(connection, [Message(patients[one]) for one in turns])
                with lock:
                    for turn, row in zip(turns, rows, strict=True):
                        if turn not in opened:
                            opened.add(turn)
                            waiting[row.event_id] = now
                written = due
            time.sleep(max(TICK_S / 10, min(TICK_S, begun + written / stream.rate - time.monotonic())))
    wrote[0] = time.monotonic() - begun
