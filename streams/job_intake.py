"""Intake of the executor: records of `dispatch.jobs` and `dispatch.control` into heads (spec/jobs.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from schemas.codec import self_contained
from schemas.dead import Cause, resting_place
from schemas.delayed import goes_to, tried_again
from schemas.errors import Undecodable, UnknownSchema
from schemas.records import Job
from schemas.topic_names import CONTROL, JOBS, OUTCOMES
from streams.burial import bury
from streams.calls import Calls
from streams.contact_jobs import PAUSES
from streams.control import carry_out, forget, pause
from streams.due import read_due
from streams.execute import Executor
from streams.heads import KEPT_MS, Origin, State
from streams.identifiers import canonical_row_id
from streams.job_book import JobBook
from streams.job_bounds import LONGEST_KEY, read_command, read_job
from streams.job_endings import Rules
from streams.job_records import tell_command
from streams.job_room import Filling, Room, refuses_order, size_of
from streams.just_made import JustMade
from streams.merging import merge_waiting
from streams.newer_jobs import NEWER
from streams.ports import Outbox
from streams.transitions import refuse, take
from streams.transport import Record
from telemetry.trace_ids import with_one_parent

log = structlog.get_logger(__name__)

MOST_WAITING: Final = 50_000
"""Contacts with a waiting job above which the intake holds: the rest waits in Kafka. Those of a paused
organization don't count, since it must hold up nobody else; their jobs are kept in their heads."""
HELD_LOOK_S: Final = 0.05


class JobIntake:
    """Takes in batches of one partition each, in order; acknowledged when the heads are handed over."""

    def __init__(
        self,
        book: JobBook,
        executor: Executor,
        calls: Calls,
        outbox: Outbox,
        rules: Rules,
        *,
        wall_ms: Callable[[], int],
        leaving: Callable[[], bool],
        room: Room | None = None,
        just_made: JustMade | None = None,
    ) -> None:
        self._book = book
        self._executor = executor
        self._calls = calls
        self._outbox = outbox
        self._rules = rules
        self._wall_ms = wall_ms
        self._leaving = leaving
        self._room = room or Room()
        self._just_made = just_made or JustMade()

    async def jobs(self, records: Sequence[Record], partition: int) -> None:
        """Apply a batch of `dispatch.jobs`."""
        # a rebalance, too, ends the wait: no event could tell both
        while self._crowded() and not self._leaving():  # noqa: ASYNC110
            await asyncio.sleep(HELD_LOOK_S)
        self._executor.hear()
        now_ms = self._wall_ms()
        contacts: dict[bytes, Filling] = {}
        for record in records:
            if self._is_in_the_way(record, contacts):
                self._wrote(contacts, partition)
                await self._sent(record.key or b"", partition)
                contacts.clear()
                now_ms = self._wall_ms()
            self._job(record, partition, contacts, now_ms)
        self._wrote(contacts, partition)

    def _wrote(self, contacts: Mapping[bytes, Filling], partition: int) -> None:
        """Hand over what the batch has changed, each contact once, however many of its jobs came."""
        for key, contact in contacts.items():
            if contact.changed:
                self._book.changed(key, partition, contact.jobs)
        self._book.flush()
        self._executor.wake()

    def _is_in_the_way(self, record: Record, contacts: Mapping[bytes, Filling]) -> bool:
        """Whether the record's contact is full of what merges have named and nobody has sent yet."""
        contact = contacts.get(record.key or b"")
        return (
            contact is not None
            and contact.refuses(len(record.value or b"")) is not None
            and contact.has_unsent
        )

    async def _sent(self, key: bytes, partition: int) -> None:
        """Wait until what a contact's record names is sent; not for ever, since Kafka may be away."""
        until = time.monotonic() + self._room.patience_s
        while time.monotonic() < until:
            await asyncio.sleep(HELD_LOOK_S)
            if not Filling(self._book.jobs(key, partition), self._room).has_unsent:
                return

    def _crowded(self) -> bool:
        waiting = self._book.lanes.waiting_but(self._book.paused)
        return waiting + len(self._book.unverified) > MOST_WAITING

    def _job(self, record: Record, partition: int, contacts: dict[bytes, Filling], now_ms: int) -> None:
        tally = self._executor.tally
        tally.read += 1
        if record.key == PAUSES:
            self._bury(record, "bad_key", "under this key pauses are kept: it is no contact's", now_ms)
            return
        if record.key is not None and len(record.key) > LONGEST_KEY:
            self._bury(record, "bad_key", f"a contact's key has {LONGEST_KEY:,} bytes at most", now_ms)
            return
        if record.key is None or record.value is None:
            self._bury(record, "no_key" if record.key is None else "no_value", "a job needs both", now_ms)
            return
        try:
            job = self._just_made.take(record.value) or read_job(record.value)
        except UnknownSchema as error:
            # a forwarder of a version before ours brings here what was to go elsewhere
            self._not_yet(record, goes_to(record.headers) or JOBS, str(error), now_ms)
            return
        except Undecodable as error:
            self._bury(record, "undecodable", str(error), now_ms)
            return
        if job.run_by == "table":
            tally.elsewhere += 1
            return
        contact = contacts.get(record.key)
        if contact is None:
            contact = contacts[record.key] = Filling(self._book.jobs(record.key, partition), self._room)
        self._take(record, record.key, self_contained(record.value), job, contact, now_ms)

    def _take(
        self, record: Record, key: bytes, value: bytes, job: Job, contact: Filling, now_ms: int
    ) -> None:
        tally, jobs = self._executor.tally, contact.jobs
        before = jobs.head(job.id)
        returns = before is not None and before.state is State.DELAYED
        headers = with_one_parent(record.headers)
        origin = Origin(record.topic, record.partition, record.offset, record.timestamp, headers)
        size = size_of(key, value, headers)
        if before is None or (before.state is State.AWAITED and before.cancel is None):
            why = contact.refuses(size)
            if why is not None:
                self._refuse(record, key, job, origin, contact, why, now_ms)
                return
        # a delayed record may come back with a new timestamp long after: what it was due at tells its age
        old = min(record.timestamp, read_due(headers) or record.timestamp) < now_ms - KEPT_MS
        head = take(jobs, key, job, value, origin, self._rules, now_ms, old=old)
        if head is None:
            tally.dropped += 1
            return
        tally.returned += returns
        tally.taken += not returns
        if contact.took(0 if returns else size, head) and key not in self._book.unknown:
            tally.merged += merge_waiting(jobs, now_ms)
            contact.measure()

    def _refuse(
        self, record: Record, key: bytes, job: Job, origin: Origin, contact: Filling, why: str, now_ms: int
    ) -> None:
        """Bury a job that its contact's record has no room for. What is told of it is sent at once, and no
        head is kept: a flood would go on to fill the record."""
        self._executor.tally.refused_jobs += 1
        contact.changed = contact.jobs.heads.pop(job.id, None) is not None or contact.changed
        head = refuse(job, record.value or b"", origin, why, self._rules, now_ms)
        for send in head.unsent:
            self._outbox.send(send.topic, [(key, send.value, record.partition, send.headers)])
        log.warning(
            "dead_letter",
            reason=why,
            job_id=job.id,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )

    def _not_yet(self, record: Record, to: str, message: str, now_ms: int) -> None:
        """Another version wrote it: during a rolling upgrade a worker that knows it may come; for an hour."""
        later = tried_again(record, to, now_ms)
        if later is None:
            self._bury(record, "unknown_schema", message, now_ms)
            return
        topic, headers = later
        self._outbox.send(topic, [(record.key, record.value, record.partition, headers)])
        if record.topic.endswith(JOBS):
            self._executor.tally.postponed += 1
        log.warning("unknown_schema", topic=record.topic, partition=record.partition, offset=record.offset)

    def _bury(self, record: Record, reason: str, message: str, now_ms: int) -> None:
        self._executor.tally.unreadable += 1
        burial = bury(record, Cause("execute", reason, message), None, "", now_ms, self._rules.language)
        self._outbox.send(resting_place(burial.letter[3] or ()), [burial.letter])
        self._outbox.send(OUTCOMES, [burial.outcome])
        log.warning(
            "dead_letter", reason=reason, topic=record.topic, partition=record.partition, offset=record.offset
        )

    async def commands(self, records: Sequence[Record], partition: int) -> None:
        """Apply a batch of `dispatch.control`."""
        self._executor.hear()
        now_ms = self._wall_ms()
        for record in records:
            self._command(record, partition, now_ms)
        self._book.flush()
        self._executor.wake()

    def _command(self, record: Record, partition: int, now_ms: int) -> None:
        tally = self._executor.tally
        tally.commands += 1
        try:
            command = read_command(record.value or b"")
        except UnknownSchema as error:
            self._not_yet(record, CONTROL, str(error), now_ms)
            return
        except Undecodable as error:
            self._bury(record, "undecodable", str(error), now_ms)
            return
        if command.action in ("pause", "resume"):
            pauses = self._book.jobs(PAUSES, partition)
            if pause(pauses, command, now_ms):
                self._book.changed(PAUSES, partition, pauses)
                log.info("jobs_paused", action=command.action, partition=partition)
            return
        if record.key == PAUSES:
            self._bury(record, "bad_key", "under this key pauses are kept: it is no contact's", now_ms)
            return
        key = record.key or b""
        if len(key) > LONGEST_KEY:
            self._bury(record, "bad_key", f"a contact's key has {LONGEST_KEY:,} bytes at most", now_ms)
            return
        if key in self._book.unknown:
            self._not_yet(record, CONTROL, NEWER, now_ms)
            return
        jobs = self._book.jobs(key, partition)
        organization_id, _, contact_id = key.decode(errors="replace").partition(":")
        # the key of a group link ends with a phone: nobody's id, and not for the trace
        contact = command.organization_id or organization_id, canonical_row_id(contact_id)
        no_room = refuses_order(jobs, command, self._room)
        if no_room is not None:
            facts = {"command": command.id, "action": command.action, "because": no_room}
            told = tell_command(*contact, command.job_id, now_ms, f"refused:{command.action}", facts)
            self._outbox.send(told.topic, [(key, told.value, partition, None)])
            tally.refused += 1
            return
        if command.action == "forget":
            forget(jobs, contact, command, now_ms)
        elif not carry_out(jobs, contact, command, self._rules, now_ms):
            tally.refused += 1
        self._book.changed(key, partition, jobs)
        head = jobs.heads.get(command.job_id or "")
        if head is not None and head.state is not State.RUNNING and command.job_id is not None:
            self._calls.abort(key, command.job_id)
