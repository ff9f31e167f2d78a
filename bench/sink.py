"""How fast the sink writes: outcomes a second in batches, and how long a lone one takes.

    python -m bench.sink [--outcomes 60000] [--partitions 8] [--lone 200]

On given servers (KAFKA_BOOTSTRAP_SERVERS, and DATABASE_URL of a role that may create databases) or embedded
ones. Makes databases and topics of its own and drops them.

Measured apart: stops of one event, windows of three events with their job, starts and ends of those jobs,
windows of events that have no row (hand-produced ones); and all of it mixed, alike in every
round (`bench.sink_workload`). Beside each stands a bare UPDATE of the same rows in a database of its own
(`bench.sink_bare`), in turns. The sink also reads from Kafka, decodes and writes the trace; the bare one does
not.
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
from statistics import median
from typing import Self

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg.conninfo import make_conninfo

from bench.meter import Meter, Reading
from bench.processes import Started, Usage
from bench.servers import Servers, servers
from bench.sink_bare import bare
from bench.sink_workload import CONTACTS, ROUND, Bench, Kind, kinds, outcomes_of
from db.migrate import migrate
from schemas.codec import encode_outcome
from schemas.records import Outcome
from schemas.topic_names import DEAD, OUTCOMES
from settings import Settings
from sinks.outcomes import BATCH, run_sink


def child(url: str, bootstrap: str, settings: Settings) -> None:
    """The sink's process."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run_sink(url, bootstrap, settings, stop)


@contextmanager
def prepared(at: Servers, partitions: int) -> Iterator[Bench]:
    """A database and topics for this run."""
    bootstrap, admin_url = at.bootstrap, at.admin_url
    name = f"bench_{uuid.uuid4().hex[:10]}"
    settings = Settings(topic_prefix=f"{name}.", partitions=partitions, session_timeout_s=60.0)
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


class Sink:
    """The sink's process, frozen while it is given something to do."""

    def __init__(self, bench: Bench) -> None:
        self._process = multiprocessing.get_context("spawn").Process(
            target=child, args=(bench.url, bench.bootstrap, bench.settings)
        )
        self._connection = psycopg.connect(bench.url, autocommit=True)
        self.written = 0

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()
        self._connection.close()

    def freeze(self) -> None:
        """Stop it where it is; it must go on within the session timeout."""
        self._signal(signal.SIGSTOP)

    def write(self, count: int) -> float:
        """Let it go on; the seconds until so many further outcomes are in Postgres."""
        self._signal(signal.SIGCONT)
        started = time.perf_counter()
        while written(self._connection) < self.written + count:
            time.sleep(0.002)
        self.written += count
        return time.perf_counter() - started

    def usage(self) -> Usage:
        """What it has used since it was started."""
        return Started(self._process.pid).usage()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


@dataclass(frozen=True)
class Compared:
    """Rounds of the sink beside the bare statements, in outcomes a second."""

    name: str
    sink: tuple[float, ...]
    bare: tuple[float, ...]
    used: tuple[Reading, ...]
    """Of the sink, a round."""
    outcomes: int
    """Of a round."""
    rows: int
    """Rows of events and jobs that they write, in all rounds; the trace is not among them."""

    @property
    def rows_per_s(self) -> float:
        """Rows a second that the sink writes (median)."""
        return median(self.sink) * self.rows / (self.outcomes * len(self.sink))

    def __str__(self) -> str:
        """In one line."""
        ratios = [ours / least for ours, least in zip(self.sink, self.bare, strict=True)]
        told = f"{self.name:34} {median(self.sink):>9,.0f} outcomes/s   bare {median(self.bare):>9,.0f}"
        return (
            f"{told}   ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})   "
            f"{self.rows_per_s:,.0f} rows/s"
        )


def compare(bench: Bench, producer: Producer, sink: Sink, kind: Kind, of_round: int = ROUND) -> Compared:
    """Round by round the bare statements, then the sink with the same outcomes; what else runs meets both."""

    def given(part: list[Outcome]) -> float:
        """Give the sink, which stands still, a part, and let the bare statements write it."""
        for url in (bench.url, bench.bare_url) if kind.seeded else ():
            seed(url, bench, part)
        sink.freeze()
        produce(bench, producer, part)
        return bare(bench.bare_url, part, BATCH)

    if kind.lead:
        given(kind.lead)
        sink.write(len(kind.lead))
    found, beside, used = [], [], []
    with Meter(bench.url, [sink]) as meter:
        for first in range(0, len(kind.outcomes), of_round):
            part = kind.outcomes[first : first + of_round]
            least, before = given(part), meter.read()
            found.append(len(part) / sink.write(len(part)))
            beside.append(len(part) / least)
            used.append(meter.read().since(before))
    return Compared(kind.name, tuple(found), tuple(beside), tuple(used), of_round, kind.rows)


def producer_of(bench: Bench) -> Producer:
    """Onto the outcomes topic."""
    return Producer({"bootstrap.servers": bench.bootstrap, "partitioner": "murmur2_random", "linger.ms": 1})


def warm_up(bench: Bench, producer: Producer, sink: Sink, count: int) -> None:
    """Let the sink start and write something."""
    warm = list(outcomes_of(bench, count, 1, False))
    produce(bench, producer, warm)
    sink.write(len(warm))


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
    parser.add_argument("--outcomes", type=int, default=60_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--lone", type=int, default=200)
    arguments = parser.parse_args()
    with servers() as at, prepared(at, arguments.partitions) as bench:
        producer = producer_of(bench)
        with Sink(bench) as sink:
            warm_up(bench, producer, sink, ROUND)
            for kind in kinds(bench, arguments.outcomes, ROUND):
                print(compare(bench, producer, sink, kind), flush=True)
        latency(bench, producer, arguments.lone)


if __name__ == "__main__":
    main()
