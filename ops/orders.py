"""Orders to jobs: written to `dispatch.control`, carried out by the worker that owns the job's contact."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from db import orders as stored
from db.runs import Connection
from ops.asking import asking
from ops.dlq.desk import operator
from ops.errors import NotFound, NotYet, OpsError
from ops.sender import Sender
from schemas.codec import encode_command
from schemas.records import Command
from schemas.topic_names import APP_ID, CONTROL, OUTCOMES
from settings import Settings
from streams.lag import Lags, LagUnknown
from streams.requeueing import Copy

Order = Literal["cancel", "run_now", "hold", "release"]
ENDED: Final = {
    "done": "it is done",
    "sent": "it is done",
    "failed": "it was cancelled, or has failed for good",
    "dead": "it is dead; `rajada dlq requeue --id {job}` begins it anew",
}
"""Status of a job that no order means anything to any more → what to say."""
LOOK_S: Final = 0.2
Found = TypeVar("Found")


class Refused(OpsError):
    """The order means nothing in the job's state; the message says which that is."""

    exit_code = 10


class TableRunsThem(OpsError):
    """The jobs are run by the CRM's own workers, which hear no orders of ours."""


@dataclass(frozen=True, slots=True)
class Written:
    """An order that stands in the log."""

    command: Command
    key: bytes
    ends: dict[int, int]
    """Partition → behind the order's record."""


class Orders:
    """Writes orders and waits for what comes of them."""

    def __init__(self, settings: Settings, bootstrap: str, url: str, *, by: str | None = None) -> None:
        self._by = by or operator()
        self._settings = settings
        self._bootstrap = bootstrap
        self._url = url

    def refuse_if_table(self) -> None:
        """Raises TableRunsThem where no worker of ours runs jobs."""
        if self._settings.jobs_run_by == "table":
            raise TableRunsThem(
                "RAJADA_JOBS_RUN_BY=table: the CRM's own workers run the jobs and hear no orders of ours. "
                "Change the row in job_queue as those workers expect it."
            )

    def to_job(
        self, connection: Connection, action: Order, job_id: str, order_id: str, reason: str | None
    ) -> Written:
        """Write an order to one job. Raises NotFound, Refused, OpsError."""
        place, key = self.meant(connection, action, job_id, order_id)
        command = self._command(order_id, action, place.organization_id, job_id, reason)
        self._note(connection, command)
        return self._write(command, [(key, -1)])

    def meant(
        self, connection: Connection, action: Order, job_id: str, order_id: str
    ) -> tuple[stored.JobPlace, bytes]:
        """The job that an order would reach, and the key it travels under; writes nothing.

        Raises NotFound, Refused, OpsError.
        """
        with asking(self._url):
            place = stored.place_of(connection, job_id)
            given_before = stored.is_known(connection, order_id)
        if place is None:
            raise NotFound(
                f"Nothing is known of a job {job_id}; `rajada why {job_id}` says where it was looked for."
            )
        if place.key is None:
            raise Refused(f"The job {job_id} belongs to no contact: no lane has it, so no order reaches it.")
        # one that was given before is told again what came of it, though it has ended the job meanwhile
        if place.status in ENDED and not given_before:
            told = ENDED[place.status].format(job=job_id)
            raise Refused(f"{action.replace('_', '-')} means nothing to job {job_id}: {told}.")
        return place, place.key

    def to_all(
        self,
        connection: Connection | None,
        action: Literal["pause", "resume"],
        organization_id: str | None,
        order_id: str,
        reason: str | None,
    ) -> Written:
        """Write a pause, or its end, to every partition; works without a database. Raises OpsError."""
        command = self._command(order_id, action, organization_id, None, reason)
        if connection is not None:
            self._note(connection, command)
        partitions = self._partitions()
        return self._write(command, [(b"", partition) for partition in range(partitions)])

    def forget(self, connection: Connection, organization_id: str, key: bytes, order_id: str) -> Written:
        """Order the worker to forget what it can of a contact. Raises OpsError."""
        command = self._command(order_id, "forget", organization_id, None, None)
        self._note(connection, command)
        return self._write(command, [(key, -1)])

    def wait_for_job(self, connection: Connection, written: Written, timeout_s: float) -> stored.CameOf:
        """What the worker told of an order to a job. Raises NotYet, Refused, OpsError."""
        command = written.command

        def told() -> stored.CameOf | None:
            with asking(self._url):
                return stored.came_of(connection, command.id, command.job_id or "")

        came = _until(told, timeout_s)
        if came is None:
            raise NotYet(
                f"The order {command.id} is written, but nobody has told what came of it within "
                f"{timeout_s:.0f} s: {self._waits_for(written)}. It counts all the same; "
                f"`rajada why {command.job_id}` tells when it is carried out."
            )
        if came.outcome.startswith("refused:"):
            raise Refused(f"Refused: {came.because or came.outcome}.")
        return came

    def wait_until_read(self, written: Written, timeout_s: float) -> None:
        """Until a worker has taken an order in, in every partition. Raises NotYet, LagUnknown."""
        if _until(lambda: not self._unread(written) or None, timeout_s) is None:
            raise NotYet(
                f"The order {written.command.id} is written, but not read everywhere in {timeout_s:.0f} s: "
                f"{self._waits_for(written)}. It counts as soon as it is read."
            )

    def _command(
        self,
        order_id: str,
        action: Literal["cancel", "run_now", "hold", "release", "pause", "resume", "forget"],
        organization_id: str | None,
        job_id: str | None,
        reason: str | None,
    ) -> Command:
        return Command(
            id=order_id,
            at_ms=time.time_ns() // 1_000_000,
            action=action,
            organization_id=organization_id,
            job_id=job_id,
            reason=reason,
            issued_by=self._by,
        )

    def _note(self, connection: Connection, command: Command) -> None:
        with asking(self._url):
            stored.note(
                connection,
                command.id,
                command.action,
                organization_id=command.organization_id,
                job_id=command.job_id,
                reason=command.reason,
                ordered_by=command.issued_by,
            )

    def _write(self, command: Command, to: list[tuple[bytes, int]]) -> Written:
        sender = Sender(self._bootstrap, self._settings)
        value = encode_command(command)
        sender.send([Copy(CONTROL, key, value, (), partition=partition) for key, partition in to])
        return Written(command, to[0][0], dict(sender.ends[CONTROL]))

    def _partitions(self) -> int:
        return Lags(self._bootstrap).partitions(self._settings.topic(CONTROL))

    def _unread(self, written: Written) -> list[int]:
        """Partitions in which no worker has taken the order in."""
        topic, group = self._settings.topic(CONTROL), self._settings.topic(APP_ID)
        positions = Lags(self._bootstrap).of_group(topic, group, self._settings.sweep_max_lag_s)
        return [
            partition for partition, end in written.ends.items() if (positions[partition].next or 0) < end
        ]

    def _waits_for(self, written: Written) -> str:
        """Who has yet to do something, in words."""
        try:
            if self._unread(written):
                return "no worker has read it (does one run? `rajada status`, `rajada doctor`)"
        except LagUnknown as error:
            return str(error)
        topic = self._settings.topic(OUTCOMES)
        return f"a worker has it; the sink has yet to write what it told in {topic} (`rajada doctor`)"


def _until(look: Callable[[], Found | None], timeout_s: float) -> Found | None:
    deadline = time.monotonic() + timeout_s
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return found
