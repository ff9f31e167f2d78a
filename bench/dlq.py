"""Requeues 100,000 dead letters with `rajada dlq requeue`, and counts what arrived.

`python -m bench.dlq [--letters N] [--rate R]`; bar: 100,000 in 60 s. A tenth of the letters are jobs, which
go as orders; the others are events of 5,000 contacts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.servers import Servers, own_database, own_topics, servers
from schemas.codec import encode_job
from schemas.dead import Cause, Header, dead_headers
from schemas.records import EventRef, Job
from schemas.topic_names import CONTROL, DEAD, JOBS, SOURCE
from settings import Settings
from streams.topics import ensure_topics

CONTACTS = 5_000
BAR_S = 60.0


class _Origin:
    """Where a letter came from."""

    partition, offset, timestamp = 0, 0, 1_790_000_000_000
    headers: tuple[Header, ...] = (("cdc_source_ts_ms", b"1790000000000"),)

    def __init__(self, topic: str) -> None:
        self.topic = topic


def letters(settings: Settings, count: int) -> Iterator[tuple[bytes, bytes, list[Header]]]:
    """Key, value and headers of dead letters."""
    organization = str(uuid4())
    contacts = [str(uuid4()) for _ in range(CONTACTS)]
    for n in range(count):
        contact, event = contacts[n % CONTACTS], str(uuid4())
        key = f"{organization}:{contact}".encode()
        if n % 10:
            names = ("conversation_id", "channel_session_id", "inbound_message_id")
            payload = {"contact_id": contact, **{name: str(uuid4()) for name in names}}
            row = {
                "id": event,
                "organization_id": organization,
                "event_type": "ai_agent.dispatch_requested",
                "payload": json.dumps(payload),
                "status": "pending",
            }
            cause = Cause("decide", "contact_missing", "no such contact", event_id=event, attempt=5)
            yield key, json.dumps(row).encode(), dead_headers(_Origin(settings.topic(SOURCE)), cause, n)
        else:
            job = Job(
                id=str(uuid4()), organization_id=organization, contact_id=contact, kind="inbound_turn",
                source_event_id=event, seq=2, created_at_ms=n, run_after_ms=n, payload="{}",
                events=(EventRef(event),),
            )  # fmt: skip
            cause = Cause("execute", "http_500", "no answer", attempt=5, job_id=job.id)
            yield key, encode_job(job), dead_headers(_Origin(settings.topic(JOBS)), cause, n)


def fill(settings: Settings, count: int) -> None:
    """Write the letters."""
    producer = Producer({"bootstrap.servers": settings.bootstrap(), "partitioner": "murmur2_random"})
    for key, value, headers in letters(settings, count):
        while True:
            try:
                producer.produce(settings.topic(DEAD), value, key, headers=list(headers))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush(60)


def arrived(settings: Settings, topic: str) -> tuple[int, int]:
    """Records of a topic, and how many different letters they are copies of."""
    name, seen, count = settings.topic(topic), set(), 0
    consumer = Consumer(
        {"bootstrap.servers": settings.bootstrap(), "group.id": "bench", "enable.partition.eof": True}
    )
    parts = consumer.list_topics(name, 10).topics[name].partitions
    consumer.assign([TopicPartition(name, one, 0) for one in parts])
    ended = 0
    while ended < len(parts):
        for message in consumer.consume(1_000, 0.2):
            if message.error():
                ended += 1
                continue
            count += 1
            seen.add(dict(message.headers() or [])["copied-from"])
    consumer.close()
    return count, len(seen)


@dataclass(frozen=True, slots=True)
class Requeued:
    """One run of the command."""

    letters: int
    seconds: float
    """Of the whole command."""
    copying_s: float
    cpu_s: float
    peak_mib: float
    copies: dict[str, tuple[int, int]]
    """Topic → records, and how many different letters they are copies of."""

    @property
    def arrived(self) -> int:
        """Copies in all; as many as letters, or something is wrong."""
        return sum(count for count, _ in self.copies.values())


def measure(at: Servers, count: int, rate: str | None = None) -> Requeued:
    """Fill a dead letters' topic of its own and requeue all of it. RuntimeError when the command fails."""
    with own_database(at.admin_url) as url, own_topics(at) as settings:
        ensure_topics(at.bootstrap, settings)
        fill(settings, count)
        environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": at.bootstrap,
            "DATABASE_URL": url,
            "RAJADA_TOPIC_PREFIX": settings.topic_prefix,
        }
        command = [sys.executable, "-m", "ops.cli", "dlq", "requeue", "--all", "--yes", "--json"]
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            [*command, *(["--rate", rate] if rate else [])],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(done.stderr)
        told = json.loads(done.stdout)
        copies = {topic: arrived(settings, topic) for topic in (SOURCE, CONTROL)}
    cpu_s = usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime
    return Requeued(told["requeued"], seconds, told["seconds"], cpu_s, usage.ru_maxrss / 1024, copies)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=100_000)
    parser.add_argument("--rate", default=None, help="as the command's; default: the command's own")
    asked = parser.parse_args()
    with servers() as at:
        one = measure(at, asked.letters, asked.rate)
    print(f"{one.letters:,} letters requeued in {one.seconds:.1f} s (bar: {BAR_S:.0f} s), of them")
    print(f"  {one.copying_s:.1f} s of copying, {one.letters / one.copying_s:,.0f} letters/s")
    print(f"  {one.cpu_s:.1f} s of CPU, peak memory {one.peak_mib:.0f} MiB")
    for topic, (count, different) in one.copies.items():
        print(f"  {topic}: {count:,} records, {different:,} different")
    if one.arrived != asked.letters or one.seconds > BAR_S:
        sys.exit("not as it must be")


if __name__ == "__main__":
    main()
