"""The backlog that the main path works off: messages of a clinic's patients, as rows and as source records.

Contacts write in waves: in each, some of them write bursts into their conversations, mixed with each other,
all within one window's length. So a conversation's burst is one window and one job, and windows close all
along, not only at the end. Times lie in the past, as after an outage.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import psycopg
from confluent_kafka import Producer

from ops.clinic import Clinic, Connection, Patient
from ops.event_lines import EventLine
from ops.event_record import Header, record_of
from settings import Settings
from streams import topics

WINDOW_MS = 5_000
WAVES = 20
WAVE_MS = 6_000
"""From one wave to the next; longer than a window, so that a wave closes the one before."""
WRITING_MS = 4_000
"""How long a wave's contacts write; shorter than a window."""
PER_WINDOW = 10
"""Events of one conversation in a wave, and so of one window."""
SEED = 20


@dataclass(frozen=True, slots=True)
class Burst:
    """One conversation's messages in one wave."""

    patient: Patient
    wave: int


@dataclass(frozen=True, slots=True)
class Written:
    """One event, `at_ms` being its commit time (ms since the epoch)."""

    event_id: str
    message_id: str
    patient: Patient
    at_ms: int


@dataclass(frozen=True, slots=True)
class Workload:
    """All events in the order of the log, and the clinic they belong to."""

    clinic: Clinic
    events: tuple[Written, ...]
    per_window: int

    @property
    def windows(self) -> int:
        """How many windows, and so jobs, it must become."""
        return len(self.events) // self.per_window


def make(url: str, *, events: int, contacts: int, per_window: int = PER_WINDOW) -> Workload:
    """Write the clinic, its contacts, messages and events into the database at `url`.

    Each contact gets as many conversations as it takes to have `events` in all, `per_window` in each.
    """
    workload = plan(url, events=events, contacts=contacts, per_window=per_window)
    commit(url, workload)
    return workload


def plan(url: str, *, events: int, contacts: int, per_window: int = PER_WINDOW) -> Workload:
    """The same without messages and events, for `commit` to write."""
    randomly = random.Random(SEED)
    with psycopg.connect(url, autocommit=True) as connection:
        clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
        patients = clinic.register(connection, [f"p{number}" for number in range(contacts)])
        conversations = _more_conversations(connection, clinic, patients, events // per_window)
        start_ms = time.time_ns() // 1_000_000 - (WAVES + 20) * WAVE_MS
        written = tuple(_waves(conversations, per_window, start_ms, randomly))
        connection.execute("ANALYZE")
    return Workload(clinic, written, per_window)


def commit(url: str, workload: Workload, *, per_transaction: int = 1_000) -> None:
    """Write messages and events of `plan` in the order of the log, so many events a transaction.

    The tables are analyzed afterwards, as those of a CRM that has been running are.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(0, len(workload.events), per_transaction):
            with connection.transaction():
                _copy(connection, workload.clinic, workload.events[first : first + per_transaction])
        connection.execute("ANALYZE")


def _more_conversations(
    connection: Connection, clinic: Clinic, patients: list[Patient], wanted: int
) -> list[Patient]:
    """Further conversations of the same contacts until there are `wanted`."""
    randomly = random.Random(SEED)
    conversations = list(patients)
    while len(conversations) < wanted:
        one = patients[len(conversations) % len(patients)]
        conversations.append(Patient(one.name, one.contact_id, uuid4(randomly)))
    with (
        connection.cursor() as cursor,
        cursor.copy(
            "COPY conversations (id, organization_id, contact_id, channel_session_id, is_group) FROM STDIN"
        ) as copy,
    ):
        for one in conversations[len(patients) :]:
            copy.write_row(
                (one.conversation_id, clinic.organization_id, one.contact_id, clinic.session_id, False)
            )
    return conversations[:wanted]


def _waves(
    conversations: list[Patient], per_window: int, start_ms: int, randomly: random.Random
) -> Iterator[Written]:
    each = -(-len(conversations) // WAVES)
    for wave in range(WAVES):
        mixed = conversations[wave * each : (wave + 1) * each] * per_window
        randomly.shuffle(mixed)
        for number, patient in enumerate(mixed):
            at_ms = start_ms + wave * WAVE_MS + number * WRITING_MS // len(mixed)
            yield Written(uuid4(randomly), uuid4(randomly), patient, at_ms)


def uuid4(randomly: random.Random) -> str:
    """A random UUID of a seeded generator, so that runs are alike."""
    return str(UUID(int=randomly.getrandbits(128), version=4))


def _copy(connection: Connection, clinic: Clinic, events: tuple[Written, ...]) -> None:
    with connection.cursor() as cursor:
        with cursor.copy(
            "COPY messages (id, organization_id, conversation_id, channel_session_id, contact_id, type,"
            " direction, sent_at, created_at) FROM STDIN"
        ) as copy:
            for one in events:
                at = datetime.fromtimestamp(one.at_ms / 1000, UTC)
                copy.write_row(
                    (
                        one.message_id,
                        clinic.organization_id,
                        one.patient.conversation_id,
                        clinic.session_id,
                        one.patient.contact_id,
                        "text",
                        "inbound",
                        at,
                        at,
                    )
                )
        with cursor.copy(
            "COPY event_log (id, organization_id, event_type, entity_kind, entity_id, payload, created_at)"
            " FROM STDIN"
        ) as copy:
            for one in events:
                row = _line(clinic, one)
                at = datetime.fromtimestamp(one.at_ms / 1000, UTC)
                copy.write_row(
                    (row.id, row.organization_id, row.event_type, "message", row.entity_id, row.payload, at)
                )


def _line(clinic: Clinic, one: Written) -> EventLine:
    payload = (
        f'{{"contact_id": "{one.patient.contact_id}", "conversation_id": "{one.patient.conversation_id}",'
        f' "channel_session_id": "{clinic.session_id}", "inbound_message_id": "{one.message_id}"}}'
    )
    return EventLine(
        line=0,
        id=one.event_id,
        organization_id=clinic.organization_id,
        event_type=topics.SOURCE,
        payload=payload,
        entity_kind="message",
        entity_id=one.message_id,
    )


def preload(workload: Workload, bootstrap: str, settings: Settings) -> None:
    """Put every event into the source topic, in order, as the publisher would have."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    topic = settings.topic(topics.SOURCE)
    for number, (key, value, headers) in enumerate(records_of(workload), 1):
        producer.produce(topic, value, key, headers=headers)
        if number % 1_000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("Kafka did not take the whole workload within a minute")


def records_of(workload: Workload) -> Iterator[tuple[bytes, bytes, list[Header]]]:
    """Key, value and headers of every event, as the publisher would have sent them."""
    for lsn, one in enumerate(workload.events, 1):
        published: list[Header] = [
            ("cdc_op", b"c"),
            ("cdc_source_lsn", b"%d" % lsn),
            ("cdc_source_ts_ms", b"%d" % one.at_ms),
        ]
        key, value, headers = record_of(_line(workload.clinic, one), one.at_ms)
        yield key, value, [*published, *headers]
