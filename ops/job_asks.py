"""Jobs that their rows call unfinished: the workers are asked where they stand, and tell it anew.

Outcomes that were deleted before the sink read them leave rows behind that nobody ever writes again. A job is
remembered by its worker for 24 h after its end, so that can be mended; what nobody knows any more is begun or
ended as a person orders (docs/disasters.md).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal
from uuid import UUID, uuid4

import msgspec

from db import orders as stored
from db.queries import load
from db.runs import Connection
from ops.asking import asking
from ops.dlq.desk import operator
from ops.sender import Sender
from schemas.codec import encode_command, encode_job
from schemas.records import Action, Command, EventRef, Job
from schemas.topic_names import CONTROL
from settings import Settings
from streams.requeueing import Copy

PAGE: Final = 5_000
"""Jobs that are asked about at most."""
LOOK_S: Final = 0.3
UNKNOWN: Final = "unknown"
CLOSED: Final = "nobody knows it"
"""Why a job that nobody knows is ended."""


class _Payload(msgspec.Struct):
    event_ids: list[str] = []
    event_replays: dict[str, int] = {}


@dataclass(slots=True)
class Asked:
    """What came of asking; ids of jobs."""

    told: dict[str, str] = field(default_factory=dict)
    """Job → where it stands: a status of `job_queue`, or why the question was refused."""
    unknown: list[Job] = field(default_factory=list)
    """No worker knows them."""
    silent: list[str] = field(default_factory=list)
    """Nobody answered in time."""


def unfinished(
    connection: Connection, ids: Sequence[str] | None, since: datetime | None, older_s: float
) -> list[Job]:
    """Jobs whose rows say pending or running although their time came so many seconds ago, oldest first."""
    values: dict[str, object] = {
        "ids": [UUID(one) for one in ids] if ids else None,
        "since": since,
        "older_s": older_s,
        "most": PAGE,
    }
    rows = connection.execute(load("jobs_unfinished"), values).fetchall()
    return [_job(*row) for row in rows]  # type: ignore[arg-type]  # the file says which columns


def _job(
    id_: str, organization_id: str, contact_id: str, kind: str, event_id: str, status: str, payload: str,
    priority: int, attempts: int, max_attempts: int, created_ms: int, run_after_ms: int, replay: int,
    seq: int,
) -> Job:  # fmt: skip
    """A row as the job that it was made of."""
    try:
        members = msgspec.json.decode(payload, type=_Payload)
    except msgspec.DecodeError:  # another system's, or erased
        members = _Payload()
    return Job(
        id=id_, organization_id=organization_id, contact_id=contact_id, kind=kind, source_event_id=event_id,
        replay=replay, seq=seq, attempt=attempts, max_attempts=max_attempts, priority=priority,
        created_at_ms=max(created_ms, 0), run_after_ms=max(run_after_ms, 0), payload=payload,
        events=tuple(
            EventRef(one, members.event_replays.get(one, replay)) for one in members.event_ids or [event_id]
        ),
    )  # fmt: skip


class JobAsks:
    """Asks, begins, ends; waits for the answers.

    Args:
        settings: of the installation.
        bootstrap: Kafka's host:port list.
        url: libpq URL, for error messages.
        timeout_s: how long answers are waited for.
    """

    def __init__(self, settings: Settings, bootstrap: str, url: str, timeout_s: float) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._url = url
        self._timeout_s = timeout_s

    def ask(self, connection: Connection, jobs: Sequence[Job]) -> Asked:
        """Where these jobs stand; those that a worker knows get their rows written anew. Raises OpsError."""
        return self._answers(connection, jobs, self._order(connection, "ask", jobs))

    def run(self, connection: Connection, jobs: Sequence[Job]) -> Asked:
        """Begin jobs that nobody knows; one whose attempts are spent dies with an alert. Raises OpsError."""
        return self._answers(connection, jobs, self._order(connection, "recover", jobs))

    def close(self, connection: Connection, jobs: Sequence[Job]) -> Asked:
        """End jobs that nobody knows, as failed. Raises OpsError."""
        # a cancellation waits for its job, whose record is given behind it: no attempt begins between them
        self._order(connection, "cancel", jobs)
        return self._answers(connection, jobs, self._order(connection, "recover", jobs))

    def _order(
        self, connection: Connection, action: Literal["ask", "recover", "cancel"], jobs: Sequence[Job]
    ) -> dict[str, str]:
        """Write one order a job; returns job → order."""
        orders = {job.id: str(uuid4()) for job in jobs}
        copies = []
        for job in jobs:
            command = self._command(orders[job.id], action, job)
            with asking(self._url):
                stored.note(
                    connection, command.id, command.action, organization_id=command.organization_id,
                    job_id=job.id, reason=command.reason, ordered_by=command.issued_by,
                )  # fmt: skip
            key = f"{job.organization_id}:{job.contact_id}".encode()
            copies.append(Copy(CONTROL, key, encode_command(command), ()))
        Sender(self._bootstrap, self._settings).send(copies)
        return orders

    def _command(self, order_id: str, action: Action, job: Job) -> Command:
        return Command(
            id=order_id,
            at_ms=time.time_ns() // 1_000_000,
            action=action,
            organization_id=job.organization_id,
            job_id=job.id,
            reason=CLOSED if action == "cancel" else None,
            issued_by=operator(),
            job=None if action == "cancel" else encode_job(job),
        )

    def _answers(self, connection: Connection, jobs: Sequence[Job], orders: dict[str, str]) -> Asked:
        left = {orders[job.id]: job for job in jobs}
        found = Asked()
        deadline = time.monotonic() + self._timeout_s
        while left:
            values = {"ids": list(left), "jobs": [UUID(job.id) for job in left.values()]}
            with asking(self._url):
                rows = connection.execute(load("order_answers"), values).fetchall()
            for order, outcome, status, because in rows:
                job = left.pop(str(order))
                if outcome == UNKNOWN:
                    found.unknown.append(job)
                else:
                    found.told[job.id] = f"refused: {because}" if because else str(status or outcome)
            if not left or time.monotonic() > deadline:
                break
            time.sleep(LOOK_S)
        found.silent = [job.id for job in left.values()]
        return found
