"""Collect: records of the source topic go into the windows of their contacts (spec/dispatch.md, step 2)."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

import structlog

from schemas.codec import encode_outcome
from schemas.dead import Cause, Header
from schemas.delayed import WAITS_IN, has_room, tried_again
from settings import Language
from streams import topics
from streams.burial import bury, graves
from streams.closing import invalid_payload_outcome
from streams.contact import Contact, Window, WindowName
from streams.counting import Counts
from streams.events import (
    COMMIT_TIME,
    NO_ROOM,
    REKEYED,
    STILL_WRONG,
    TOO_LARGE,
    UNKNOWN_SCHEMA,
    Event,
    InvalidPayload,
    event_time_ms,
    read_event,
    read_marks,
    was_rekeyed,
)
from streams.partitioner import partition_of
from streams.ports import Contacts, Item, Lengths, Outbox, Source
from streams.transport import Record
from streams.windows import WindowRule, full, take_in
from telemetry.trace_ids import with_one_parent
from telemetry.tracing import traces

log = structlog.get_logger(__name__)

RuleKey = tuple[str, str, str]
"""Organization, conversation and channel session: what the length of a window depends on."""


@dataclass(slots=True)
class _Sends:
    """What one batch has to send beside the state."""

    outcomes: list[Item] = field(default_factory=list)
    dead: list[Item] = field(default_factory=list)
    again: list[Item] = field(default_factory=list)
    later: list[Item] = field(default_factory=list)


class Collector:
    """Takes in batches of one partition each, in order.

    `on_window(key, partition, window)` is told of every window that opens or fills up,
    `on_progress(partition, ms)` of the newest event time, and `newest_ms(partition)` tells that again.
    """

    def __init__(
        self,
        contacts: Contacts,
        lengths: Lengths,
        outbox: Outbox,
        source: Source,
        *,
        partitions: int,
        taken: Container[WindowName],
        on_window: Callable[[bytes, int, Window], None],
        on_progress: Callable[[int, int], None],
        newest_ms: Callable[[int], int],
        wall_ms: Callable[[], int],
        language: Language = "pt-BR",
    ) -> None:
        self._contacts = contacts
        self._lengths = lengths
        self._outbox = outbox
        self._source = source
        self._partitions = partitions
        self._taken = taken
        self._on_window = on_window
        self._on_progress = on_progress
        self._newest_ms = newest_ms
        self._wall_ms = wall_ms
        self._language = language
        self.counts = Counts()

    async def collect(self, records: Sequence[Record], partition: int) -> None:
        """Apply one batch; when this returns, state and sends are handed to the producer.

        The transport commits only what is durable, so nothing is awaited here but the window lengths.
        """
        now_ms = self._wall_ms()
        self.counts.read += len(records)
        sends = _Sends()
        events, traced = [], traces() if traces().on else None
        for record in records:
            event = self._read(record, partition, now_ms, sends)
            if event is not None:
                events.append(event)
                if traced is not None:
                    traced.came(event.event_id, record.headers)
        rules = await self._rules(events)
        replayed = any(event.replay for event in events)
        end = await self._source.outcomes_end(partition) if replayed else 0
        topic_id = self._source.topic_id()
        newest_ms = self._newest_ms(partition)
        for event in events:
            self._apply(event, partition, topic_id, rules, now_ms, end, newest_ms)
            newest_ms = max(newest_ms, event.time_ms)
        if events:
            self._on_progress(partition, newest_ms)
        self._contacts.flush()
        if sends.outcomes:
            self._outbox.send(topics.OUTCOMES, sends.outcomes)
        for topic, letters in graves(sends.dead).items():
            self._outbox.send(topic, letters)
        if sends.again:
            self._outbox.send(topics.SOURCE, sends.again)
        if sends.later:
            self._outbox.send(WAITS_IN, sends.later)

    def _read(self, record: Record, partition: int, now_ms: int, sends: _Sends) -> Event | None:
        """The event of a record that is for a window; everything else is sent where it belongs."""
        found = read_event(record.value, record.headers, record.timestamp, now_ms, record.offset)
        if isinstance(found, Event):
            if self._in_its_place(record, found, partition):
                return found
            self._rekey(record, found, now_ms, sends)
            return None
        if isinstance(found, InvalidPayload):
            self.counts.invalid_payload += 1
            outcome = invalid_payload_outcome(
                found.organization_id, found.event_id, found.replay, found.attempts, found.what, now_ms
            )
            key = f"{found.organization_id}:{found.event_id}".encode()
            sends.outcomes.append((key, encode_outcome(outcome), -1, None))
            log.warning(
                "invalid_payload",
                event_id=found.event_id,
                what=found.what,
                partition=record.partition,
                offset=record.offset,
            )
            return None
        if found.reason != UNKNOWN_SCHEMA or not self._postponed(record, now_ms, sends):
            self._bury(record, Cause("collect", found.reason, found.message), None, now_ms, sends)
        return None

    def _postponed(self, record: Record, now_ms: int, sends: _Sends) -> bool:
        """Whether a newer version's record waits for a worker that knows it: for an hour (docs/schemas.md).

        It keeps its time: what comes back late opens a window of its own, unless its window is still open.
        """
        at_ms = event_time_ms(record.headers, record.timestamp, now_ms)
        timed = read_marks(record.headers).commit_ms is not None
        also: list[Header] = [] if timed else [(COMMIT_TIME, b"%d" % at_ms)]
        later = tried_again(record, topics.SOURCE, now_ms, also)
        if later is None:
            return False
        self.counts.postponed += 1
        sends.later.append((record.key, record.value, record.partition, later[1]))
        log.warning("unknown_schema", topic=record.topic, partition=record.partition, offset=record.offset)
        return True

    def _in_its_place(self, record: Record, event: Event, partition: int) -> bool:
        """Right key, and murmur2 of it leads to this partition. A known contact's place was seen before."""
        key = event.key
        if record.key != key:
            return False
        return (
            self._contacts.get(key, partition) is not None or partition_of(key, self._partitions) == partition
        )

    def _rekey(self, record: Record, event: Event, now_ms: int, sends: _Sends) -> None:
        """Put a hand-produced event back under its key, once; still wrong is a dead letter (step 1)."""
        if was_rekeyed(record.headers):
            self._bury(record, Cause("collect", "key_mismatch", STILL_WRONG), event, now_ms, sends)
            return
        if not has_room(record):
            self._bury(record, Cause("collect", TOO_LARGE, NO_ROOM), event, now_ms, sends)
            return
        self.counts.rekeyed += 1
        kept = [one for one in with_one_parent(record.headers) if one[0] != COMMIT_TIME]
        kept += [(COMMIT_TIME, str(event.time_ms).encode()), (REKEYED, b"1")]
        sends.again.append((event.key, record.value, -1, kept))

    def _bury(self, record: Record, cause: Cause, event: Event | None, now_ms: int, sends: _Sends) -> None:
        self.counts.dead += 1
        burial = bury(record, cause, event, self._source.topic_id(), now_ms, self._language)
        sends.dead.append(burial.letter)
        sends.outcomes.append(burial.outcome)
        log.warning(
            "dead_letter",
            reason=cause.reason,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            event_id=burial.event_id,
        )

    async def _rules(self, events: Sequence[Event]) -> dict[RuleKey, WindowRule]:
        """The rules of every conversation in the batch, mostly from the cache.

        Also of those whose window is open: it may be taken for its decision while we wait for the answer.
        """
        return (
            await self._lengths.lookup(list({_rule_key(event): None for event in events})) if events else {}
        )

    def _apply(
        self,
        event: Event,
        partition: int,
        topic_id: str,
        rules: dict[RuleKey, WindowRule],
        now_ms: int,
        outcomes_end: int,
        newest_ms: int,
    ) -> None:
        key = event.key
        contact = self._contacts.get(key, partition)
        if contact is None:
            contact = Contact(topic_id=topic_id)
        elif contact.topic_id != topic_id:
            contact.topic_id, contact.offset = topic_id, -1
        elif event.offset <= contact.offset:
            self.counts.applied_before += 1
            return
        rule = rules[_rule_key(event)]
        what, window = take_in(contact, event, rule, self._taken, now_ms, outcomes_end, newest_ms)
        self._contacts.put(key, contact, partition)
        if what == "duplicate":
            self.counts.duplicate += 1
        elif window is not None:
            if what == "opened":
                self.counts.opened += 1
                self._on_window(key, partition, window)
            else:
                self.counts.joined += 1
                if full(window):
                    self._on_window(key, partition, window)


def _rule_key(event: Event) -> RuleKey:
    return event.organization_id, event.conversation_id, event.session_id
