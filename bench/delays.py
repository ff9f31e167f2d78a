"""How late delayed records come: a stream of them over every delay topic that fits in the run.

    python -m bench.delays [--rate 1000] [--seconds 75] [--longest 65] [--forwarders 1]

Records of delays up to `--longest` seconds, evenly many in each power of ten from 10 ms on, are sent at a
rate. Sender, `rajada delays` and reader are processes of their own. Lateness is taken when the reader,
which reads committed records, has one from `dispatch.jobs` in its hands. Kafka is the given one
(KAFKA_BOOTSTRAP_SERVERS) or an embedded one. Bars (design, Bars): p99 at most 500 ms, none early; exit code 1
when one is missed.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Final
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench.processes import Process, running
from ops.embedded.kafka import EmbeddedKafka
from schemas.topic_names import JOBS
from settings import Settings
from streams.due import DELAY_TOPICS, delayed_record, first_tier
from streams.topics import ensure_topics

BAR_MS: Final = 500
VALUE_BYTES: Final = 600
"""As large as a job of one event."""
CONTACTS: Final = 5_000
SETTLE_S: Final = 3.0


@dataclass(frozen=True)
class Arrived:
    """One record: how long it was delayed, and how late it was when it was read, ms."""

    delay_ms: int
    late_ms: float


def delays_ms(count: int, longest_ms: int, seed: int = 1) -> Iterator[int]:
    """Evenly many in each power of ten from 10 ms on."""
    dice = random.Random(seed)
    for _ in range(count):
        yield int(10 ** dice.uniform(1.0, math.log10(longest_ms)))


def send(
    bootstrap: str,
    settings: Settings,
    rate: float,
    count: int,
    longest_ms: int,
    took_s: Synchronized[float],
) -> None:
    """Send the records, each at its time; its due time is its value's beginning.

    `took_s` is set to how long it took: more than the rate wants where the sender can't keep up.
    """
    producer = Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 2, "acks": "all"}
    )
    began = time.monotonic()
    for n, delay_ms in enumerate(delays_ms(count, longest_ms)):
        while (early := began + n / rate - time.monotonic()) > 0:
            producer.poll(min(early, 0.01))
        now_ms = time.time_ns() // 1_000_000
        value = b"%d %d %d " % (n, now_ms + delay_ms, delay_ms)
        topic, (key, raw, partition, written) = delayed_record(
            b"organization:%d" % (n % CONTACTS),
            value.ljust(VALUE_BYTES, b"."),
            [],
            due_ms=now_ms + delay_ms,
            now_ms=now_ms,
            original_timestamp_ms=now_ms,
        )
        headers: list[tuple[str, str | bytes | None]] = [*written]
        producer.produce(settings.topic(topic), raw, key, partition, headers=headers)
    took_s.value = time.monotonic() - began
    producer.flush()


def read(bootstrap: str, settings: Settings, count: int, until_s: float) -> tuple[list[Arrived], int]:
    """What arrives, and how many records arrived more than once."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": settings.topic("bench"),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    reader.assign([TopicPartition(settings.topic(JOBS), one, 0) for one in range(settings.partitions)])
    arrived: list[Arrived] = []
    seen: Counter[bytes] = Counter()
    while time.monotonic() < until_s and len(seen) < count:
        message = reader.poll(0.1)
        if message is None or message.error() is not None:
            continue
        now_ms = time.time() * 1000
        number, due_ms, delay_ms, _ = (message.value() or b"").split(b" ", 3)
        seen[number] += 1
        arrived.append(Arrived(int(delay_ms), now_ms - int(due_ms)))
    reader.close()
    return arrived, sum(times - 1 for times in seen.values())


@contextmanager
def kafka() -> Iterator[str]:
    """bootstrap.servers of the given Kafka, or of one for this run."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    with ExitStack() as stack:
        if given:
            yield given
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rajada-bench-"))
            yield stack.enter_context(EmbeddedKafka(Path(folder) / "kafka")).bootstrap


def row(name: str, some: Sequence[Arrived]) -> tuple[str, ...]:
    """A line of the table."""
    late = sorted(one.late_ms for one in some)
    if not late:
        return name, "0", "", "", "", ""
    p50, p99 = (late[math.ceil(share * len(late)) - 1] for share in (0.5, 0.99))
    early = sum(one < 0 for one in late)
    return name, f"{len(late):,}", f"{p50:.0f}", f"{p99:.0f}", f"{late[-1]:.0f}", str(early)


def shown(arrived: Sequence[Arrived]) -> Table:
    """Lateness by the topic that the records entered first."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("entered at", "records", "p50 ms", "p99 ms", "max ms", "early"):
        table.add_column(title, justify="left" if title == "entered at" else "right")
    for topic in DELAY_TOPICS:
        some = [one for one in arrived if first_tier(one.delay_ms, 0) == topic]
        if some:
            table.add_row(*row(topic, some))
    table.add_row(*row("all", arrived), style="bold")
    return table


@dataclass(frozen=True)
class Measured:
    """One run."""

    sent: int
    seconds: float
    arrived: tuple[Arrived, ...]
    twice: int
    """Records that arrived again."""
    hops: int
    cpu_s: float
    """Of all forwarders."""
    peak_mib: float
    sent_per_s: float
    """Records a second that the sender really sent."""

    @property
    def missing(self) -> int:
        """Records that did not arrive."""
        return self.sent - len(self.arrived) + self.twice

    @property
    def early(self) -> int:
        """Records that arrived before they were due."""
        return sum(one.late_ms < 0 for one in self.arrived)

    def late_ms(self, share: float) -> float:
        """A percentile of the lateness."""
        late = sorted(one.late_ms for one in self.arrived)
        return late[math.ceil(share * len(late)) - 1]

    @property
    def met(self) -> bool:
        """Whether it was as it must be."""
        return (
            bool(self.arrived)
            and self.late_ms(0.99) <= BAR_MS
            and not (self.early or self.missing or self.twice)
        )


def measure(bootstrap: str, *, rate: float, seconds: float, longest: float, forwarders: int = 1) -> Measured:
    """One run: `rate` records a second for so many seconds, delayed by up to `longest` seconds."""
    settings = Settings(
        topic_prefix=f"bench-delays-{uuid4().hex[:8]}.", kafka_bootstrap_servers=bootstrap, partitions=8
    )
    ensure_topics(bootstrap, settings)
    count = int(rate * seconds)
    spawn = multiprocessing.get_context("spawn")
    sending_s: Synchronized[float] = spawn.Value("d", seconds)
    sender = spawn.Process(
        target=send, args=(bootstrap, settings, rate, count, int(longest * 1000), sending_s)
    )
    with ExitStack() as stack:
        started: list[Process] = []
        for _ in range(forwarders):
            started.append(
                stack.enter_context(running("delays", settings=settings, database_url=""))["delays"]
            )
            started[-1].wait_ready()
        before = sum(one.usage().cpu_s for one in started)
        began = time.monotonic()
        sender.start()
        arrived, twice = read(bootstrap, settings, count, began + seconds + longest + 30)
        took_s = time.monotonic() - began
        sender.join()
        time.sleep(SETTLE_S)
        used = [one.usage() for one in started]
        hops = sum(int(one.counted().get("forwarded", 0)) for one in started)
    return Measured(
        sent=count,
        seconds=took_s,
        arrived=tuple(arrived),
        twice=twice,
        hops=hops,
        cpu_s=sum(one.cpu_s for one in used) - before,
        peak_mib=max(one.peak_mib for one in used),
        sent_per_s=count / max(sending_s.value, seconds),
    )


def tell(one: Measured, console: Console) -> None:
    """Print it."""
    console.print(shown(one.arrived))
    console.print(
        f"{one.sent:,} records in {one.seconds:.0f} s, sent at {one.sent_per_s:,.0f}/s, "
        f"{one.missing:,} missing, {one.twice:,} twice; "
        f"{one.hops:,} hops, {one.cpu_s / max(one.hops, 1) * 1e6:.0f} µs of CPU a hop, {one.peak_mib:.0f} MiB"
    )
    console.print(
        f"bar: p99 ≤ {BAR_MS} ms, 0 early, each once: " + ("[green]met" if one.met else "[red]MISSED")
    )


def main() -> int:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1_000, help="records a second")
    parser.add_argument("--seconds", type=float, default=75, help="for how long they are sent")
    parser.add_argument("--longest", type=float, default=65, help="longest delay in seconds")
    parser.add_argument("--forwarders", type=int, default=1)
    arguments = parser.parse_args()
    with kafka() as bootstrap:
        found = measure(
            bootstrap,
            rate=arguments.rate,
            seconds=arguments.seconds,
            longest=arguments.longest,
            forwarders=arguments.forwarders,
        )
    tell(found, Console())
    return 0 if found.met else 1


if __name__ == "__main__":
    sys.exit(main())
