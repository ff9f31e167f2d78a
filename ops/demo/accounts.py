"""The accounts at the end: every event of the run, and what became of it, as Postgres and the topics say.

The board shows what was seen on the way; here the rows themselves are asked. An event is accounted for when
it is in exactly one job, or was consumed for a named reason, or is dead with a dead letter; bytes that are
no event when they lie in the dead letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ops.clinic import Connection
from ops.demo.board import JOB, Board, percentile

_EVENTS: Final = """
SELECT e.id::text, e.status, e.outcome, e.job_id::text,
    ARRAY(SELECT q.id::text FROM job_queue q WHERE q.organization_id = e.organization_id
        AND q.payload -> 'event_ids' ? e.id::text)
FROM event_log e WHERE e.organization_id = ANY (%s::uuid[]) ORDER BY e.created_at, e.id
"""
_ALERTS: Final = "SELECT count(*) FROM agent_inbox_items WHERE organization_id = ANY (%s::uuid[])"
_JOBS: Final = "SELECT count(*) FROM job_queue WHERE organization_id = ANY (%s::uuid[])"


class EventRow(msgspec.Struct, frozen=True):
    """One row of the event log, and the jobs that name it."""

    event_id: str
    status: str
    outcome: str | None
    job_id: str | None
    in_jobs: tuple[str, ...]


class Stopped(msgspec.Struct, frozen=True):
    """A reason why there is no job: how many windows and messages ended so."""

    reason: str
    windows: int
    messages: int


class Latency(msgspec.Struct, frozen=True):
    """Commit of a window's first message to its job's row, less the window; ms. None without any."""

    count: int
    p50_ms: float | None
    p99_ms: float | None


class Accounts(msgspec.Struct, frozen=True):
    """The run in numbers."""

    seconds: float
    messages: int
    """Events that were written, one a message."""
    resent: int
    """Records that were sent once more; they must change nothing."""
    noise: int
    """Records that were no event."""
    jobs: int
    answered: int
    """Messages in exactly one job."""
    stops: tuple[Stopped, ...]
    dead_letters: dict[str, int]
    lost: tuple[str, ...]
    """Events of which nothing final is known, or whose job is not there; must be empty."""
    doubled: tuple[str, ...]
    """Events in more than one job; must be empty."""
    alerts: int
    """Items in the inboxes of the organizations, for people to see."""
    noise_lost: int
    """Records that were no event and have no dead letter; must be 0."""
    latency: Latency
    complete: bool = True
    """False when the run was stopped before its end."""

    @property
    def right(self) -> bool:
        """Whether everything is accounted for, once."""
        return not (self.lost or self.doubled or self.noise_lost)


def read_events(connection: Connection, organization_ids: list[str]) -> list[EventRow]:
    """The event log of some organizations, with the jobs that name each event."""
    rows = connection.execute(_EVENTS, [organization_ids]).fetchall()
    return [msgspec.convert(row, EventRow, strict=False) for row in map(_named, rows)]


def read_jobs(connection: Connection, organization_ids: list[str]) -> int:
    """How many jobs some organizations have."""
    row = connection.execute(_JOBS, [organization_ids]).fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else 0


def read_alerts(connection: Connection, organization_ids: list[str]) -> int:
    """How many alerts some organizations have."""
    row = connection.execute(_ALERTS, [organization_ids]).fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else 0


def _named(row: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(EventRow.__struct_fields__, row, strict=True))


def account(board: Board, rows: Iterable[EventRow], *, jobs: int, alerts: int, seconds: float) -> Accounts:
    """The accounts of a run.

    `jobs` and `alerts` are the numbers of rows in job_queue and agent_inbox_items, `seconds` its length.
    """
    events = list(rows)
    buried_events = {letter.event_id for letter in board.buried.values()}
    answered = [row for row in events if _in_its_job(row)]
    stopped = Counter(
        row.outcome or "" for row in events if row.status == "done" and row.outcome not in (None, JOB)
    )
    windows = board.counted("stop")
    written = {message.event_id for card in board.cards for message in card.messages}
    lost = [row.event_id for row in events if not _accounted(row, buried_events)]
    lost += sorted(written - {row.event_id for row in events})
    ranked = board.latencies_ms()
    return Accounts(
        seconds=round(seconds, 1),
        messages=len(events),
        resent=board.resent,
        noise=len(board.noise),
        jobs=jobs,
        answered=len(answered),
        stops=tuple(
            Stopped(reason, windows.get(reason, 0), count) for reason, count in sorted(stopped.items())
        ),
        dead_letters=_letters(board),
        lost=tuple(lost),
        doubled=tuple(row.event_id for row in events if len(row.in_jobs) > 1),
        alerts=alerts,
        noise_lost=len(board.noise - board.buried.keys()),
        latency=Latency(len(ranked), _rounded(percentile(ranked, 0.5)), _rounded(percentile(ranked, 0.99))),
        complete=board.finished,
    )


def _accounted(row: EventRow, buried: set[str | None]) -> bool:
    """Whether one event has an end that holds together."""
    if row.outcome == JOB:
        return _in_its_job(row)
    if row.in_jobs or row.outcome is None:
        return False
    return row.status == "done" or (row.status == "dead" and row.event_id in buried)


def _in_its_job(row: EventRow) -> bool:
    return row.status == "done" and row.outcome == JOB and row.in_jobs == (row.job_id,)


def _letters(board: Board) -> dict[str, int]:
    return dict(sorted(Counter(letter.reason for letter in board.buried.values()).items()))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def as_json(accounts: Accounts, more: Mapping[str, object]) -> str:
    """The accounts as one JSON object, with what else programs want to know."""
    told: dict[str, object] = msgspec.to_builtins(accounts)
    return msgspec.json.encode({**told, "right": accounts.right, **more}).decode()
