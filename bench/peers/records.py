"""A window of a peer in Python as the records that ours would send for it: the same job, the same outcome.

The peers in Python read an event and write a job with our own functions, so that what differs between them
and ours is what carries the event in between.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.codec import encode_job, encode_outcome
from streams.closing import sent_of
from streams.contact import Window, WindowEvent
from streams.events import Event, read_event
from streams.freezing import freeze


@dataclass(frozen=True, slots=True)
class Told:
    """What a peer's process is told in its variables (`bench.peers.program`)."""

    bootstrap: str
    source: str
    jobs: str
    outcomes: str
    application: str
    partitions: int
    window_ms: int
    state: str

    @classmethod
    def read(cls) -> Told:
        """From the environment; KeyError when a variable is missing."""
        return cls(
            bootstrap=os.environ["PEER_BOOTSTRAP"],
            source=os.environ["PEER_SOURCE"],
            jobs=os.environ["PEER_JOBS"],
            outcomes=os.environ["PEER_OUTCOMES"],
            application=os.environ["PEER_APPLICATION"],
            partitions=int(os.environ["PEER_PARTITIONS"]),
            window_ms=int(os.environ["PEER_WINDOW_MS"]),
            state=os.environ["PEER_STATE"],
        )


def event_of(value: bytes, headers: Iterable[tuple[str, bytes | None]], at_ms: int) -> Event | None:
    """The event of a source record, as our worker reads it; None for the end of the log (`feeding`)."""
    found = read_event(value, list(headers), at_ms, now_ms(), 0)
    return found if isinstance(found, Event) else None


def sent(
    key: bytes, conversation_id: str, members: Sequence[WindowEvent], deadline_ms: int, length_ms: int
) -> tuple[bytes, bytes]:
    """The job and the outcome of a window that a job is made of."""
    window = Window(
        conversation_id=conversation_id,
        events=list(members),
        deadline_ms=deadline_ms,
        length_ms=length_ms,
        max_events=len(members),
    )
    freeze(key, window, "job", (), (), now_ms())
    records = sent_of(key, window)
    assert records.job is not None, "it was frozen with a job"
    (outcome,) = records.outcomes
    return encode_job(records.job), encode_outcome(outcome)


def now_ms() -> int:
    """The clock, ms since the epoch."""
    return time.time_ns() // 1_000_000
