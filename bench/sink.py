"""How fast the sink writes: outcomes a second in batches, and how long a lone one takes.

    python -m bench.sink [--outcomes 50000] [--partitions 8] [--lone 200]

Needs KAFKA_BOOTSTRAP_SERVERS and DATABASE_URL (a role that may create databases). Makes databases and
topics of its own and drops them. Kinds of outcomes are measured apart: stops of one event, windows of three
events with their job, starts and ends of those jobs, and windows of events that have no row (hand-produced
ones). Beside each stands a bare UPDATE of the same rows in a database of its own (`bench.sink_bare`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg.conninfo import make_conninfo

from bench.sink_bare import bare
from db.migrate import migrate
from schemas.codec import encode_outcome
from schemas.records import EventOutcome, EventRef, Job, Outcome
from schemas.topic_names import DEAD, OUTCOMES
from settings import Settings
from sinks.outcomes import BATCH, run_sink

CONTACTS = 2_000
EVENTS_A_WINDOW = 3


@dataclass(frozen=True)
class Bench:
    """Where it runs."""

    url: str
    bare_url: str
    bootstrap: str
    settings: Settings
    organization: str
    contacts: list[str]


def child(url: str, bootstrap: str, settings: Settings) -> None:
    """The sink's process."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run_sink(url, bootstrap, settings, stop)


@contextmanager
def prepared(partitions: int) -> Iterator[Bench]:
    """A database and topics for this run."""
    bootstrap, admin_url = os.environ["KAFKA_BOOTSTRAP_SERVERS"], os.environ["DATABASE_URL"]
    name = f"bench_{uuid.uuid4().hex[:10]}"
    settings = Settings(topic_prefix=f"{name}.", partitions=partitions)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [settings.topic(OUTCOMES), settings.topic(DEAD)]
    for future in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result(30)
    organization = str(uuid.uuid4())
    contacts = [str(uuid.uuid4()) for _ in range(CONTACTS)]
    names = (name, f"{name}_bare")
    urls = [make_conninfo(admin_url, dbname=one) for one in names]
    with psycopg.connect(admin_url, autocommit=True) as connection:
        for one in names:
            connection.execute(f"CREATE DATABASE {one}")
    try:
        for url in urls:
            migrate(url, crm="ours")
            with psycopg.connect(url) as connection:
                connection.execute("INSERT INTO organizations (id) VALUES (%s)", [organization])
                with connection.cursor().copy("COPY contacts (id, organization_id) FROM STDIN") as copy:
                    for contact in contacts:
                        copy.write_row((contact, organization))
        yield Bench(urls[0], urls[1], bootstrap, settings, organization, contacts)
    finally:
        for future in admin.delete_topics(topics).values():
            future.result(30)
        with psycopg.connect(admin_url, autocommit=True) as connection:
            for one in names:
                connection.execute(f"DROP DATABASE {one} WITH (FORCE)")


def outcomes_of(bench: Bench, count: int, events: int, job: bool) -> Iterator[Outcome]:
    """Outcomes as the window stage sends them."""
    for n in range(count):
        ids = [str(uuid.uuid4()) for _ in range(events)]
        contact = bench.contacts[n % CONTACTS]
        at_ms = time.time_ns() // 1_000_000
        conversation = str(uuid.uuid4())
        messages = {one: str(uuid.uuid4()) for one in ids}
        payload = {
            "conversation_id": conversation, "contact_id": contact, "channel_session_id": conversation,
            "inbound_message_id": messages[ids[-1]], "crm_event_id": ids[0], "event_ids": ids,
        }  # fmt: skip
        facts = {
            "conversation_id": conversation, "messages": messages, "opened_ms": at_ms - 8_000,
            "deadline_ms": at_ms, "length_ms": 8_000,
        }  # fmt: skip
        made = Job(
            id=str(uuid.uuid4()), organization_id=bench.organization, contact_id=contact, kind="inbound_turn",
            source_event_id=ids[0], seq=2, created_at_ms=at_ms, run_after_ms=at_ms,
            payload=json.dumps(payload), events=tuple(EventRef(one) for one in ids),
        )  # fmt: skip
        yield Outcome(
            organization_id=bench.organization, contact_id=contact, at_ms=at_ms, stage="decide",
            events=tuple(EventOutcome(event_id=one, seq=1, attempts=1) for one in ids), status="done",
            outcome="job" if job else "superseded_by_newer_inbound", job_id=made.id if job else None,
            job=made if job else None, job_status="pending" if job else None, facts=json.dumps(facts),
        )  # fmt: skip


def lives_of(made: list[Outcome]) -> Iterator[Outcome]:
    """Starts and ends of the jobs of windows, as the executor sends them: one of a contact at a time."""
    for first in range(0, len(made), CONTACTS):
        jobs = [outcome.job for outcome in made[first : first + CONTACTS] if outcome.job is not None]
        for seq, status, facts in (
            (3, "running", '{"attempt":1}'), (4, "done", '{"attempt":1,"duration_ms":900,"http_status":200}'),
        ):  # fmt: skip
            for job in jobs:
                moved = msgspec.structs.replace(job, seq=seq, attempt=1)
                yield Outcome(
                    organization_id=job.organization_id, contact_id=job.contact_id,
                    at_ms=time.time_ns() // 1_000_000, stage="execute", events=(), status="done",
                    outcome="done" if status == "done" else None, job_id=job.id, job=moved,
                    job_status=status, facts=facts,
                )  # fmt: skip


def seed(url: str, bench: Bench, outcomes: list[Outcome]) -> None:
    """The rows of the events, as the CRM wrote them."""
    with psycopg.connect(url) as connection:
        statement = "COPY event_log (id, organization_id, event_type, payload) FROM STDIN"
        with connection.cursor().copy(statement) as copy:
            for outcome in outcomes:
                payload = json.dumps(
                    {"conversation_id": str(uuid.uuid4()), "inbound_message_id": str(uuid.uuid4())}
                )
                for event in outcome.events:
                    row = (event.event_id, bench.organization, "ai_agent.dispatch_requested", payload)
                    copy.write_row(row)


def produce(bench: Bench, producer: Producer, outcomes: list[Outcome]) -> None:
    """Onto the topic, keyed by contact."""
    topic = bench.settings.topic(OUTCOMES)
    for outcome in outcomes:
        producer.produce(topic, key=outcome.contact_id, value=encode_outcome(outcome))
        producer.poll(0)
    producer.flush()


def written(connection: psycopg.Connection[tuple[int]]) -> int:
    """How many outcomes are in Postgres."""
    row = connection.execute(
        "SELECT coalesce(sum(next_offset), 0)::bigint FROM rajada.sink_offsets"
    ).fetchone()
    assert row is not None
    return row[0]


def throughput(bench: Bench, producer: Producer, outcomes: list[Outcome], before: int) -> float:
    """Time a sink over outcomes that wait for it; outcomes a second."""
    produce(bench, producer, outcomes)
    process = multiprocessing.get_context("spawn").Process(
        target=child, args=(bench.url, bench.bootstrap, bench.settings)
    )
    with psycopg.connect(bench.url, autocommit=True) as connection:
        process.start()
        while written(connection) == before:
            time.sleep(0.002)
        started, first = time.perf_counter(), written(connection)
        while written(connection) < before + len(outcomes):
            time.sleep(0.01)
        seconds = time.perf_counter() - started
    process.terminate()
    process.join()
    return (before + len(outcomes) - first) / seconds


def latency(bench: Bench, producer: Producer, count: int) -> None:
    """Time lone outcomes from the send to the row."""
    outcomes = list(outcomes_of(bench, count, 1, True))
    seed(bench.url, bench, outcomes)
    process = multiprocessing.get_context("spawn").Process(
        target=child, args=(bench.url, bench.bootstrap, bench.settings)
    )
    process.start()
    taken = []
    with psycopg.connect(bench.url, autocommit=True) as connection:
        for n, outcome in enumerate(outcomes):
            started = time.perf_counter()
            produce(bench, producer, [outcome])
            query = "SELECT status FROM event_log WHERE id = %s"
            while connection.execute(query, [outcome.events[0].event_id]).fetchone() != ("done",):
                time.sleep(0.0005)
            if n >= 10:  # the first ones wait for the process to start
                taken.append((time.perf_counter() - started) * 1000)
            time.sleep(0.02)
    process.terminate()
    process.join()
    taken.sort()
    p50, p99 = taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
    print(f"{'lone outcome, send to row':34} p50 {p50:.1f} ms  p99 {p99:.1f} ms  max {taken[-1]:.1f} ms")


def main() -> None:
    """Run all of it and print a line each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--outcomes", type=int, default=50_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--lone", type=int, default=200)
    arguments = parser.parse_args()
    with prepared(arguments.partitions) as bench:
        producer = Producer(
            {"bootstrap.servers": bench.bootstrap, "partitioner": "murmur2_random", "linger.ms": 1}
        )
        count, before = arguments.outcomes, 0
        windows = list(outcomes_of(bench, count, EVENTS_A_WINDOW, True))
        for name, outcomes, rows in (
            ("stops of one event", list(outcomes_of(bench, count, 1, False)), True),
            ("windows of three with their job", windows, True),
            ("starts and ends of those jobs", list(lives_of(windows)), False),
            ("windows without rows", list(outcomes_of(bench, count, EVENTS_A_WINDOW, True)), False),
        ):
            if rows:
                seed(bench.url, bench, outcomes)
                seed(bench.bare_url, bench, outcomes)
            least = len(outcomes) / bare(bench.bare_url, outcomes, BATCH)
            found = throughput(bench, producer, outcomes, before)
            before += len(outcomes)
            print(f"{name:34} {found:>9,.0f} outcomes/s   bare {least:>9,.0f}   ratio {found / least:.2f}")
        latency(bench, producer, arguments.lone)


if __name__ == "__main__":
    main()
