"""One worker on the transport against a plain confluent-kafka loop that does the same work.

    python -m bench.transport [--events 100000] [--contacts 5000] [--rounds 3]

The work: decode JSON, keep a contact's state with its changelog, freeze bursts of 20 events, send a job and
an outcome for each. The worker also fences before it sends. On the Kafka that KAFKA_BOOTSTRAP_SERVERS
names, else an embedded one; makes and drops topics of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import orjson
from confluent_kafka import Consumer, Message, Producer

from bench.bursts import Contact, collect, jobs
from bench.servers import broker
from chaos.transport import create_topics, delete_topics

PARTITIONS = 4


class _Event:
    __slots__ = ("key", "offset", "value")

    def __init__(self, message: Message) -> None:
        self.key, self.value = message.key(), message.value()
        self.offset = message.offset() or 0


class _Contacts(dict[bytes, Contact]):
    """The plain loop's state, with the keys to write to its changelog."""

    def __init__(self) -> None:
        super().__init__()
        self._touched: dict[bytes, None] = {}

    def put(self, key: bytes, contact: Contact) -> None:
        self[key] = contact
        self._touched[key] = None

    def take_touched(self) -> dict[bytes, None]:
        touched, self._touched = self._touched, {}
        return touched


def fill(bootstrap: str, topic: str, events: int, contacts: int) -> None:
    """Write the events."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "partitioner": "murmur2_random"})
    dice = random.Random(1)
    for i in range(events):
        body = orjson.dumps({"id": str(uuid.UUID(int=i)), "payload": "x" * 200})
        producer.produce(topic, body, f"org:{dice.randrange(contacts):08d}")
        if i % 1000 == 0:
            producer.poll(0)
    producer.flush()


def plain(bootstrap: str, name: str, source: str, events: int) -> float:
    """Events a second of the plain loop (one process, one thread, no fence, one commit at the end)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    consumer.subscribe([source])
    contacts = _Contacts()
    places: dict[bytes, int] = {}
    seen, start = 0, 0.0
    while seen < events:
        messages = consumer.consume(1000, 0.05)
        if not messages:
            continue
        start = start or time.monotonic()
        seen += len(messages)
        by_partition: dict[int, list[_Event]] = {}
        for message in messages:
            by_partition.setdefault(message.partition() or 0, []).append(_Event(message))
        frozen: list[bytes] = []
        for partition, batch in by_partition.items():
            frozen += collect(batch, contacts.get, contacts.put)
            for key in contacts.take_touched():
                places[key] = partition
                producer.produce(f"{name}.changelog", orjson.dumps(contacts[key]), key, partition)
        producer.poll(0)
        if frozen:
            _close(producer, name, dict.fromkeys(frozen), contacts, places)
    producer.flush()
    consumer.commit(asynchronous=False)
    seconds = time.monotonic() - start
    consumer.close()
    return seen / seconds


def _close(
    producer: Producer, name: str, keys: dict[bytes, None], contacts: dict[bytes, Contact],
    places: dict[bytes, int],
) -> None:  # fmt: skip
    producer.flush()
    for key in keys:
        for job, outcome in jobs(key, contacts[key]):
            producer.produce(f"{name}.jobs", job, key)
            producer.produce(f"{name}.outcomes", outcome, key)
    producer.flush()
    for key in keys:
        contacts[key]["frozen"] = []
        producer.produce(f"{name}.changelog", orjson.dumps(contacts[key]), key, places[key])


def worker(bootstrap: str, name: str, source: str, events: int) -> float:
    """Events a second of one worker, from its first batch until everything is durable."""
    folder = Path(tempfile.mkdtemp(prefix="rajada-bench-"))
    environment = {"BENCH_ID": name, "BENCH_SOURCE": source, "BENCH_EVENTS": str(events),
                   "BENCH_PARTITIONS": str(PARTITIONS), "BENCH_BOOTSTRAP": bootstrap,
                   "BENCH_RESULT": str(folder / "result.json")}  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "faust", "-A", "bench.transport_app", "worker", "--without-web"],
            env={**os.environ, **environment}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while not (folder / "result.json").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()[-3000:])
            time.sleep(0.1)
        time.sleep(0.1)
        result = orjson.loads((folder / "result.json").read_bytes())
    finally:
        process.kill()
        process.wait()
    return float(result["events"]) / float(result["seconds"])


def main() -> None:
    """Print both rates and their ratio, per round."""
    parser = argparse.ArgumentParser(prog="python -m bench.transport")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--contacts", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with broker() as bootstrap:
        measure(bootstrap, options)


def measure(bootstrap: str, options: argparse.Namespace) -> None:
    """Both sides in turn, so that other users of the machine disturb both."""
    prefix = f"bench-{uuid.uuid4().hex[:8]}"
    source = f"{prefix}.in"
    made = [source]
    create_topics(bootstrap, made, PARTITIONS)
    try:
        fill(bootstrap, source, options.events, options.contacts)
        for number in range(options.rounds):
            rates = {}
            for side in (plain, worker):
                name = f"{prefix}-{side.__name__}-{number}"
                outputs = [f"{name}.jobs", f"{name}.outcomes"]
                outputs += [f"{name}.changelog"] if side is plain else []
                create_topics(bootstrap, outputs, PARTITIONS)
                made += [*outputs, f"{name}-contacts-changelog"]
                rates[side.__name__] = side(bootstrap, name, source, options.events)
            ratio = rates["worker"] / rates["plain"]
            print(f"plain {rates['plain']:>9,.0f}/s   worker {rates['worker']:>9,.0f}/s   ratio {ratio:.2f}")
    finally:
        delete_topics(bootstrap, made)


if __name__ == "__main__":
    main()
