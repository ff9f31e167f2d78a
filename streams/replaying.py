"""What a record of a topic is published again as, and which topics can be replayed (spec/jobs.md, "Replay").

What was done stays done: an event that has its outcome is found by stop 0, an outcome counts only above what
Postgres holds. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from schemas.codec import decode_outcome
from schemas.dead import COPIED_FROM, REPLAY, Header
from schemas.errors import Undecodable
from schemas.topic_names import (
    APP_ID,
    CLOCK,
    CONTROL,
    DEAD,
    DELAY,
    GROUP_LINKS,
    JOBS,
    OUTCOMES,
    PARKING,
    RECONCILIATION,
    SOURCE,
)
from streams.events import AGAIN, COMMIT_TIME, REKEYED, Event, InvalidPayload, read_event
from streams.identifiers import canonical_row_id
from streams.letters import read_content
from streams.requeueing import Copy

REPLAYABLE: Final = (SOURCE, GROUP_LINKS, OUTCOMES)

_LETTERS: Final = "dead letters are sent again by `rajada dlq requeue`, each where it belongs"
REFUSED: Final = {
    JOBS: "a job's record names one attempt and would be taken for another: a dead job is begun anew by "
    "`rajada dlq requeue`, one that was done by `rajada replay ai_agent.dispatch_requested --again`",
    CONTROL: "an order is given anew, by `rajada jobs` or `rajada pause`",
    DEAD: _LETTERS,
    PARKING: _LETTERS,
    DELAY: "what waits there comes by itself when it is due; `rajada jobs run-now` brings one job forward",
    CLOCK: "nobody reads it but for its clock",
    RECONCILIATION: "it triggers a comparison, and the next one is on its schedule",
    APP_ID: "it is a worker's own memory, which recovery reads",
}
"""Topic, or how its name begins → why it is not replayed, and what to do instead."""

Skipped = Literal["unreadable", "done", "twice", "another key"]
"""Why a record is left out: no record of ours, done before, in the run already, or not asked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """A record as it was read; `place` is `<topic>/<partition>/<offset>`, `topic` without prefix."""

    topic: str
    place: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp: int


def refusal(topic: str) -> str | None:
    """Why a topic (name without prefix) is not replayed; None: it can be."""
    if topic in REPLAYABLE:
        return None
    for begins, why in REFUSED.items():
        if topic == begins or topic.startswith((f"{begins}.", f"{begins}-")):
            return why
    return "it is no topic of Rajada"


def replayed(source: Source, number: int, *, again: bool) -> Copy | Skipped:
    """The copy of a record under a run's number; `again` makes new jobs of events."""
    if source.topic == OUTCOMES:
        if not _is_outcome(source.value):
            return "unreadable"
        return Copy(OUTCOMES, source.key, source.value, _headers(source, number, again=False))
    if source.topic == GROUP_LINKS:
        if _row_id(source.value) is None:
            return "unreadable"
        return Copy(GROUP_LINKS, source.key, source.value, _headers(source, number, again=False))
    found = read_event(source.value, source.headers, source.timestamp, source.timestamp, 0)
    if not isinstance(found, (Event, InvalidPayload)):
        return "unreadable"
    key = found.key if isinstance(found, Event) else source.key
    return Copy(SOURCE, key, source.value, _headers(source, number, again=again))


def event_id_of(source: Source) -> str | None:
    """The event of a record of a source topic; None: it is none."""
    if source.topic == GROUP_LINKS:
        return _row_id(source.value)
    found = read_event(source.value, source.headers, source.timestamp, source.timestamp, 0)
    return found.event_id if isinstance(found, (Event, InvalidPayload)) else None


def is_done(source: Source, done: Collection[str]) -> bool:
    """Whether a group link's event was done before; who reads them has no stop 0 to find that."""
    return source.topic == GROUP_LINKS and event_id_of(source) in done


def _row_id(value: bytes | None) -> str | None:
    record = read_content(value).record
    return canonical_row_id(record.get("id")) if isinstance(record, Mapping) else None


def _is_outcome(value: bytes | None) -> bool:
    try:
        decode_outcome(value or b"")
    except Undecodable:
        return False
    return True


def _headers(source: Source, number: int, *, again: bool) -> list[Header]:
    ours = (REPLAY, AGAIN, REKEYED, COPIED_FROM)
    kept = [one for one in source.headers if one[0] not in ours]
    if source.timestamp > 0 and not any(name == COMMIT_TIME for name, _ in kept):
        kept.append((COMMIT_TIME, str(source.timestamp).encode()))
    kept += [(REPLAY, str(number).encode()), (COPIED_FROM, source.place.encode())]
    return [*kept, (AGAIN, b"1")] if again else kept
