"""The accounts at the end: messages, the jobs that they are in, and the answers, as each place itself says.

The board shows what was seen on the way; here the rows are asked, and the engine. An event is accounted for
when it is in exactly one job, or was consumed for a named reason, or is dead with a dead letter; bytes that
are no event when they lie in the dead letters. A job is when it has ended and the engine's own count of
idempotency keys agrees: one effect of a job that is answered, none of one that ended otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from ops.clinic import Connection
from ops.demo.board import JOB, Board, percentile
from ops.demo.instances import Instances
from ops.demo.links import Links

_EVENTS: Final = """
SELECT e.id::text, e.status, e.outcome, e.job_id::text,
    ARRAY(SELECT q.id::text FROM job_queue q WHERE q.organization_id = e.organization_id
        AND q.payload -> 'event_ids' ? e.id::text)
FROM event_log e WHERE e.organization_id = ANY (%s::uuid[]) ORDER BY e.created_at, e.id
"""
_ALERTS: Final = "SELECT count(*) FROM agent_inbox_items WHERE organization_id = ANY (%s::uuid[])"
_JOBS: Final = """
SELECT q.id::text, q.status, q.attempts, ARRAY(SELECT jsonb_array_elements_text(q.payload -> 'event_ids')),
    (SELECT t.outcome FROM rajada.trace t WHERE t.job_id = q.id AND t.event_id IS NULL
        ORDER BY t.replay DESC, t.seq DESC LIMIT 1)
FROM job_queue q WHERE q.organization_id = ANY (%s::uuid[]) ORDER BY q.created_at, q.id
"""

End = Literal["answered", "merged", "covered", "vetoed", "cancelled", "dead"]


class EventRow(msgspec.Struct, frozen=True):
    """One row of the event log, and the jobs that name it."""

    event_id: str
    status: str
    outcome: str | None
    job_id: str | None
    in_jobs: tuple[str, ...]

    @property
    def may_come(self) -> bool:
        """Whether its end is still to come: nobody has told one, and no job has it."""
        return self.status in ("pending", "processing") and self.outcome is None and not self.in_jobs


class JobRow(msgspec.Struct, frozen=True):
    """One row of job_queue, and the last that the trace tells of the job."""

    job_id: str
    status: str
    attempts: int
    event_ids: tuple[str, ...]
    outcome: str | None

    @property
    def end(self) -> End | None:
        """How the job ended; None: it didn't."""
        step = (self.outcome or "").partition(":")[0]
        match self.status, step:
            case "done", "merged":
                return "merged"
            case "done", "covered_by":
                return "covered"
            case "done", _:
                return "answered"
            case "failed", _:
                return "cancelled" if step == "cancelled" else "vetoed"
            case "dead", _:
                return "dead"
            case _:
                return None

    @property
    def into(self) -> str | None:
        """The job that took it in or covered it."""
        return (self.outcome or "").partition(":")[2] if self.end in ("merged", "covered") else None


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
    in_jobs: int
    """Messages in exactly one job."""
    answered: int
    """Of these: whose job, or the newer turn that took it over, was answered."""
    ends: dict[str, int]
    """How the jobs ended: answered, merged, covered, vetoed, cancelled, dead."""
    retried: int
    """Jobs that were answered, but not at the first attempt."""
    answers: int
    """Effects that the engine counts for these jobs."""
    stops: tuple[Stopped, ...]
    dead_letters: dict[str, int]
    lost: tuple[str, ...]
    """Events of which nothing final is known, or whose job is not there; must be empty."""
    doubled: tuple[str, ...]
    """Events in more than one job; must be empty."""
    unended: tuple[str, ...]
    """Jobs that have not ended, or died without a dead letter; must be empty."""
    misanswered: tuple[str, ...]
    """Jobs of which the engine counts another number of effects than their end says; must be empty."""
    alerts: int
    """Items in the inboxes of the organizations, for people to see."""
    noise_lost: int
    """Records that were no event and have no dead letter; must be 0."""
    latency: Latency
    complete: bool = True
    """False when the run was stopped before its end."""
    on_their_way: tuple[str, ...] = ()
    """Of a run that was stopped: events whose end is still to come. They are not lost."""
    still_running: tuple[str, ...] = ()
    """Of a run that was stopped: jobs whose end is still to come."""
    example: str = ""
    """One of its events, to look at."""
    links: Links | None = None
    """What became of the group links."""
    instances: Instances | None = None
    """What became of the stuck instances."""

    @property
    def right(self) -> bool:
        """Whether everything is accounted for, once."""
        return not (
            self.lost or self.doubled or self.noise_lost or self.unended or self.misanswered or self.amiss
        )

    @property
    def amiss(self) -> tuple[str, ...]:
        """What is wrong beside the chats, in words; of a run that was stopped nothing is."""
        if not self.complete:
            return ()
        links = f"group links of {', '.join(self.links.wrong)}" if self.links and self.links.wrong else ""
        stuck = "" if self.instances is None or self.instances.right else "stuck WhatsApp instances"
        return tuple(one for one in (links, stuck) if one)


def read_events(connection: Connection, organization_ids: list[str]) -> list[EventRow]:
    """The event log of some organizations, with the jobs that name each event."""
    rows = connection.execute(_EVENTS, [organization_ids]).fetchall()
    return [msgspec.convert(row, EventRow, strict=False) for row in map(_named, rows)]


def read_jobs(connection: Connection, organization_ids: list[str]) -> list[JobRow]:
    """The jobs of some organizations, and how they ended."""
    rows = connection.execute(_JOBS, [organization_ids]).fetchall()
    return [
        msgspec.convert(dict(zip(JobRow.__struct_fields__, row, strict=True)), JobRow, strict=False)
        for row in rows
    ]


def read_alerts(connection: Connection, organization_ids: list[str]) -> int:
    """How many alerts some organizations have."""
    row = connection.execute(_ALERTS, [organization_ids]).fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else 0


def _named(row: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(EventRow.__struct_fields__, row, strict=True))


def account(
    board: Board,
    rows: Iterable[EventRow],
    jobs: Iterable[JobRow],
    effects: Mapping[str, int],
    *,
    alerts: int,
    seconds: float,
) -> Accounts:
    """The accounts of a run.

    Args:
        board: what was seen on the way.
        rows: of the event log.
        jobs: of job_queue.
        effects: job → how often the engine answered it.
        alerts: the number of inbox items.
        seconds: the run's length.
    """
    events, by_id = list(rows), {job.job_id: job for job in jobs}
    buried_events = {letter.event_id for letter in board.buried.values()}
    in_jobs = [row for row in events if _in_its_job(row, by_id)]
    ends = Counter(job.end for job in by_id.values() if job.end is not None)
    stopped = Counter(
        row.outcome or "" for row in events if row.status == "done" and row.outcome not in (None, JOB)
    )
    windows = board.counted("stop")
    written = {message.event_id for card in board.cards for message in card.messages}
    open_ = [row for row in events if not _accounted(row, by_id, buried_events)]
    # who stops a run before its end stops messages on their way: a fault is only what can't come right
    coming = {row.event_id for row in open_ if row.may_come} if board.interrupted else set[str]()
    running = {job.job_id for job in by_id.values() if job.end is None} if board.interrupted else set[str]()
    lost = [row.event_id for row in open_ if row.event_id not in coming]
    lost += sorted(written - {row.event_id for row in events})
    ranked = board.latencies_ms()
    return Accounts(
        seconds=round(seconds, 1),
        messages=len(events),
        resent=board.resent,
        noise=len(board.noise),
        jobs=len(by_id),
        in_jobs=len(in_jobs),
        answered=sum(_ends_in(row.job_id or "", by_id) == "answered" for row in in_jobs),
        ends=dict(sorted(ends.items())),
        retried=sum(job.end == "answered" and job.attempts > 1 for job in by_id.values()),
        answers=sum(effects.get(job_id, 0) for job_id in by_id),
        stops=tuple(
            Stopped(reason, windows.get(reason, 0), count) for reason, count in sorted(stopped.items())
        ),
        dead_letters=dict(sorted(board.letters.items())),
        lost=tuple(lost),
        doubled=tuple(row.event_id for row in events if len(_homes(row, by_id)) > 1),
        unended=tuple(
            job.job_id
            for job in by_id.values()
            if job.job_id not in running
            and (job.end is None or (job.end == "dead" and job.job_id not in board.buried_jobs))
        ),
        misanswered=tuple(
            job.job_id
            for job in by_id.values()
            if job.job_id not in running and effects.get(job.job_id, 0) != (1 if job.end == "answered" else 0)
        ),
        alerts=alerts,
        noise_lost=len(board.noise - board.buried.keys()) if not board.interrupted else 0,
        latency=Latency(len(ranked), _rounded(percentile(ranked, 0.5)), _rounded(percentile(ranked, 0.99))),
        complete=board.finished and not board.interrupted,
        example=events[0].event_id if events else "",
        on_their_way=tuple(row.event_id for row in open_ if row.event_id in coming),
        still_running=tuple(job_id for job_id in by_id if job_id in running),
    )


def _accounted(row: EventRow, jobs: Mapping[str, JobRow], buried: set[str | None]) -> bool:
    """Whether one event has an end that holds together."""
    if row.outcome == JOB:
        return _in_its_job(row, jobs)
    if row.in_jobs or row.outcome is None:
        return False
    return row.status == "done" or (row.status == "dead" and row.event_id in buried)


def _in_its_job(row: EventRow, jobs: Mapping[str, JobRow]) -> bool:
    return row.status == "done" and row.outcome == JOB and _homes(row, jobs) == {row.job_id}


def _homes(row: EventRow, jobs: Mapping[str, JobRow]) -> set[str]:
    """The jobs that an event is in, those that took over others standing for them."""
    return {_survivor(job_id, jobs) for job_id in row.in_jobs}


def _survivor(job_id: str, jobs: Mapping[str, JobRow]) -> str:
    """The job that stands for a job in the end: of a merged one the newer, and so on."""
    seen = {job_id}
    while (job := jobs.get(job_id)) is not None and job.into is not None and job.into not in seen:
        job_id = job.into
        seen.add(job_id)
    return job_id


def _ends_in(job_id: str, jobs: Mapping[str, JobRow]) -> End | None:
    job = jobs.get(_survivor(job_id, jobs))
    return job.end if job is not None else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def as_json(accounts: Accounts, more: Mapping[str, object]) -> str:
    """The accounts as one JSON object, with what else programs want to know."""
    told: dict[str, object] = msgspec.to_builtins(accounts)
    return msgspec.json.encode({**told, "right": accounts.right, **more}).decode()
