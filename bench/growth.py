"""What lies around the work grows: more open windows, rows, messages and jobs, and the same work each time.

The rows are made by Postgres itself (`generate_series`), so that ten million of them need minutes, not hours.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from confluent_kafka import Producer

from bench.decisions import backend_cpu_s, measure, questions_of
from bench.servers import own_database
from bench.sink import seed
from bench.sink_workload import EVENTS_A_WINDOW, Bench, outcomes_of
from settings import Settings
from sinks.batch import Taken, batch_of
from sinks.writer import Writer
from streams import topics
from streams.contact import Contact, Window, WindowEvent, encode_contact

FILL = Path(__file__).with_name("growth_fill.sql")
AHEAD_MS = 86_400_000
"""How far in the future the open windows end: none closes while something is measured."""
CONVERSATIONS = 5
"""How many grow long."""
TOPIC_ID = "growth"
_SESSION = "SET session_replication_role = replica; SET synchronous_commit = off; SET work_mem = '64MB'"


@dataclass(frozen=True, slots=True)
class Grown:
    """Rows that are added: a statement from its first to its second parameter, and the table it fills."""

    table: str
    statement: str


GROWN = {
    "event_log": Grown(
        "event_log",
        """
INSERT INTO event_log (id, organization_id, event_type, payload, status, outcome)
SELECT gen_random_uuid(), md5('o' || n %% 20)::uuid, 'ai_agent.dispatch_requested',
    jsonb_build_object('contact_id', md5('c' || n %% 2000)::uuid,
        'conversation_id', md5('k' || n %% 2000)::uuid,
        'inbound_message_id', md5('x' || n)::uuid), 'done', 'job'
FROM generate_series(%s::bigint, %s::bigint) n
""",
    ),
    "messages": Grown(
        "messages",
        f"""
INSERT INTO messages (id, organization_id, conversation_id, channel_session_id, contact_id, type, direction,
    sent_at, created_at)
SELECT gen_random_uuid(), k.organization_id, k.id, k.channel_session_id, k.contact_id, 'text',
    CASE WHEN n %% 2 = 0 THEN 'outbound' ELSE 'inbound' END,
    now() - make_interval(days => 2, secs => n), now() - make_interval(days => 2, secs => n)
FROM (SELECT * FROM conversations ORDER BY id LIMIT {CONVERSATIONS}) k,
    generate_series(%s::bigint, %s::bigint) n
""",
    ),
    "jobs": Grown(
        "job_queue",
        """
INSERT INTO job_queue (id, organization_id, contact_id, kind, source_event_id, payload, status)
SELECT gen_random_uuid(), md5('o' || n %% 20)::uuid, md5('c' || n)::uuid, 'inbound_turn', gen_random_uuid(),
    jsonb_build_object('event_ids', jsonb_build_array(gen_random_uuid(), gen_random_uuid())), 'pending'
FROM generate_series(%s::bigint, %s::bigint) n
""",
    ),
}


@contextmanager
def crm(admin_url: str) -> Iterator[str]:
    """URL of a small CRM of its own."""
    with own_database(admin_url) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(FILL.read_bytes())
        yield url


def grow(url: str, what: str, before: int, after: int, say: Callable[[str], None]) -> None:
    """Add rows until there are `after` where `before` are; a statement for each million at most."""
    grown = GROWN[what]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SESSION)
        begun = time.monotonic()
        for first in range(before + 1, after + 1, 1_000_000):
            connection.execute(grown.statement, (first, min(after, first + 999_999)))
        # So that what is measured next is not the first reader that sets hint bits, nor the checkpoint.
        connection.execute(f"VACUUM ANALYZE {grown.table}")
        connection.execute("CHECKPOINT")
    say(f"{what}: {after:,} after {time.monotonic() - begun:.0f} s")


def decisions_us(url: str, *, batch_size: int, batches: int, times: int) -> float:
    """CPU microseconds of client and server a window."""
    asked = questions_of(url, batch_size, batches, 3) * times
    return asyncio.run(measure(url, asked)).cpu_us


class SinkBeside:
    """The sink's writer in this process, whose statements and their processor time are measured."""

    def __init__(self, url: str) -> None:
        contacts = [_id(f"c{number}") for number in range(0, 2_000, 20)] * 20
        self._bench = Bench(url, url, "", Settings(), _id("o0"), contacts)
        self._writer = Writer(url)
        self._url = url
        self._next = self._writer.positions(TOPIC_ID, "t", [0])[0]

    def outcomes_us(self, count: int, batch: int = 500) -> float:
        """CPU microseconds of client and server an outcome: windows of three events with their job."""
        outcomes = list(outcomes_of(self._bench, count, EVENTS_A_WINDOW, True))
        seed(self._url, self._bench, outcomes)
        pid = self._backend()
        used = time.process_time() + backend_cpu_s(pid)
        for first in range(0, count, batch):
            part = outcomes[first : first + batch]
            taken = [Taken(0, self._next + place, outcome) for place, outcome in enumerate(part, 1)]
            self._next = self._writer.write(TOPIC_ID, batch_of(taken), {0: self._next})[0]
        return (time.process_time() + backend_cpu_s(pid) - used) / count * 1e6

    def close(self) -> None:
        """End the connection."""
        self._writer.__exit__(None, None, None)

    def _backend(self) -> int:
        with psycopg.connect(self._url) as connection:
            row = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'rajada-sink'"
            ).fetchone()
        assert row is not None, "the writer is connected"
        return int(row[0])


def _id(name: str) -> str:
    """As growth_fill.sql makes them."""
    return str(uuid.UUID(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()))


def open_windows(bootstrap: str, settings: Settings, count: int) -> None:
    """Put so many contacts with an open window into the worker's changelog, as an earlier run left them."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 50,
            "queue.buffering.max.messages": 500_000,
        }
    )
    topic, dice = settings.topic(topics.CONTACTS_CHANGELOG), random.Random(1)
    now_ms = time.time_ns() // 1_000_000
    organization, session = str(uuid.UUID(int=1)), str(uuid.UUID(int=7))
    for number in range(count):
        contact, message = (str(uuid.UUID(int=dice.getrandbits(128), version=4)) for _ in range(2))
        event = WindowEvent(str(uuid.UUID(int=number)), message, session, number, now_ms)
        window = Window(contact, [event], now_ms + AHEAD_MS, AHEAD_MS, 100)
        value = encode_contact(Contact("", -1, [window], touched_ms=now_ms))
        producer.produce(topic, value, f"{organization}:{contact}")
        if number % 1_000 == 0:
            producer.poll(0)
            while len(producer) > 300_000:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("Kafka did not take the open windows")
