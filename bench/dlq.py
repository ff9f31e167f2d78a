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
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.servers import own_database, own_topics, servers
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=100_000)
    parser.add_argument("--rate", default=None, help="as the command's; default: the command's own")
    asked = parser.parse_args()
    with servers() as at, own_database(at.admin_url) as url, own_topics(at) as settings:
        ensure_topics(at.bootstrap, settings)
        fill(settings, asked.letters)
        environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": at.bootstrap,
            "DATABASE_URL": url,
            "RAJADA_TOPIC_PREFIX": settings.topic_prefix,
        }
        command = [sys.executable, "-m", "ops.cli", "dlq", "requeue", "--all", "--yes", "--json"]
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            [*command, *(["--rate", asked.rate] if asked.rate else [])],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(done.stderr)
        told = json.loads(done.stdout)
        copies = {topic: arrived(settings, topic) for topic in (SOURCE, CONTROL)}
    print(f"{told['requeued']:,} letters requeued in {seconds:.1f} s (bar: {BAR_S:.0f} s), of them")
    print(f"  {told['seconds']:.1f} s of copying, {told['requeued'] / told['seconds']:,.0f} letters/s")
    cpu_s = usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {cpu_s:.1f} s of CPU, peak memory {usage.ru_maxrss / 1024:.0f} MiB")
    for topic, (count, different) in copies.items():
        print(f"  {topic}: {count:,} records, {different:,} different")
    if sum(count for count, _ in copies.values()) != asked.letters or seconds > BAR_S:
        sys.exit("not as it must be")


if __name__ == "__main__":
    main()
