"""Group-link events into jobs: to the delay topics until they are available (spec/group_link.md, main path).

Nothing is remembered here: an event that is read twice gives the same job twice, and the job's head takes it
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import structlog

from schemas import alert_texts
from schemas.codec import encode_job, encode_outcome
from schemas.dead import Cause, resting_place
from schemas.delayed import has_room, tried_again
from schemas.topic_names import GROUP_LINKS, OUTCOMES
from settings import Language
from streams.burial import bury
from streams.closing import invalid_payload_outcome
from streams.due import delayed_record
from streams.events import (
    COMMIT_TIME,
    NO_ROOM,
    REKEYED,
    STILL_WRONG,
    TOO_LARGE,
    UNKNOWN_SCHEMA,
    InvalidPayload,
    Unreadable,
    read_marks,
    was_rekeyed,
)
from streams.group_links import GroupLinkEvent, enqueued, read_group_link
from streams.partitioner import partition_of
from streams.ports import Item, Outbox
from streams.transport import Record
from telemetry.trace_ids import with_one_parent
from telemetry.tracing import Member, traces

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class GroupLinkCounts:
    """What became of the records; every one is counted in exactly one of these."""

    read: int = 0
    """All of them."""
    enqueued: int = 0
    invalid: int = 0
    rekeyed: int = 0
    postponed: int = 0
    """Written by another version: looked at again later."""
    dead: int = 0

    def told(self) -> dict[str, int]:
        """As flat numbers, for a log line and the counters' file."""
        return {f"group_links_{name}": count for name, count in asdict(self).items()}


@dataclass(slots=True)
class _Sends:
    by_topic: dict[str, list[Item]] = field(default_factory=dict)

    def add(self, topic: str, item: Item) -> None:
        self.by_topic.setdefault(topic, []).append(item)


class GroupLinkIntake:
    """Takes in batches of one partition each."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        partitions: int,
        wall_ms: Callable[[], int],
        language: Language = alert_texts.DEFAULT,
    ) -> None:
        self._outbox = outbox
        self._partitions = partitions
        self._wall_ms = wall_ms
        self._language = language
        self.counts = GroupLinkCounts()

    async def events(self, records: Sequence[Record], partition: int) -> None:
        """Apply a batch; when this returns, all it makes is handed to the producer."""
        now_ms, sends = self._wall_ms(), _Sends()
        for record in records:
            self._event(record, partition, now_ms, sends)
        for topic, items in sends.by_topic.items():
            self._outbox.send(topic, items)

    def _event(self, record: Record, partition: int, now_ms: int, sends: _Sends) -> None:
        self.counts.read += 1
        found = read_group_link(record.value, record.headers, now_ms)
        if isinstance(found, Unreadable):
            if found.reason == UNKNOWN_SCHEMA and self._postponed(record, now_ms, sends):
                return
            self._bury(record, Cause("enqueue", found.reason, found.message), now_ms, sends)
        elif isinstance(found, InvalidPayload):
            self._discard(record, found, now_ms, sends)
        elif record.key != found.key or partition_of(found.key, self._partitions) != partition:
            self._rekey(record, found, now_ms, sends)
        else:
            self._enqueue(record, found, partition, now_ms, sends)

    def _postponed(self, record: Record, now_ms: int, sends: _Sends) -> bool:
        """Whether a newer version's record waits for a worker that knows it: for an hour."""
        later = tried_again(record, GROUP_LINKS, now_ms)
        if later is None:
            return False
        self.counts.postponed += 1
        topic, headers = later
        sends.add(topic, (record.key, record.value, record.partition, headers))
        log.warning("unknown_schema", topic=record.topic, partition=record.partition, offset=record.offset)
        return True

    def _enqueue(
        self, record: Record, event: GroupLinkEvent, partition: int, now_ms: int, sends: _Sends
    ) -> None:
        self.counts.enqueued += 1
        trace = traces().stamp(event.job.id)
        committed_ms = read_marks(record.headers).commit_ms or record.timestamp
        topic, (key, value, _, headers) = delayed_record(
            event.key,
            encode_job(event.job),
            [(COMMIT_TIME, b"%d" % committed_ms), *(trace or ())],
            due_ms=event.job.run_after_ms,
            now_ms=now_ms,
            original_timestamp_ms=record.timestamp,
        )
        sends.add(topic, (key, value, partition, headers))
        if traces().on:
            traces().came(event.event_id, record.headers)
            member = Member(event.event_id, record.offset, committed_ms)
            traces().made(event.job.id, event.job.kind, [member], now_ms)
        sends.add(OUTCOMES, (event.key, encode_outcome(enqueued(event, now_ms)), partition, trace))

    def _discard(self, record: Record, found: InvalidPayload, now_ms: int, sends: _Sends) -> None:
        self.counts.invalid += 1
        outcome = invalid_payload_outcome(
            found.organization_id, found.event_id, found.replay, found.attempts, found.what, now_ms
        )
        key = f"{found.organization_id}:{found.event_id}".encode()
        sends.add(OUTCOMES, (key, encode_outcome(outcome), -1, None))
        log.warning(
            "group_link_discarded",
            event_id=found.event_id,
            what=found.what,
            partition=record.partition,
            offset=record.offset,
        )

    def _rekey(self, record: Record, event: GroupLinkEvent, now_ms: int, sends: _Sends) -> None:
        """Put a hand-produced event under its key and partition, once; still wrong is a dead letter."""
        if was_rekeyed(record.headers):
            self._bury(record, Cause("enqueue", "key_mismatch", STILL_WRONG), now_ms, sends)
            return
        if not has_room(record):
            self._bury(record, Cause("enqueue", TOO_LARGE, NO_ROOM), now_ms, sends)
            return
        self.counts.rekeyed += 1
        kept = [*with_one_parent(record.headers), (REKEYED, b"1")]
        sends.add(GROUP_LINKS, (event.key, record.value, partition_of(event.key, self._partitions), kept))

    def _bury(self, record: Record, cause: Cause, now_ms: int, sends: _Sends) -> None:
        self.counts.dead += 1
        burial = bury(record, cause, None, "", now_ms, self._language)
        sends.add(resting_place(burial.letter[3] or ()), burial.letter)
        sends.add(OUTCOMES, burial.outcome)
        log.warning(
            "dead_letter",
            reason=cause.reason,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
