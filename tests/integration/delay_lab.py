"""Forwarders of the delay topics as real processes, delayed records, and a reader that sees them come."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

import status
from schemas.dead import Header
from schemas.topic_names import DEAD, JOBS, OUTCOMES
from settings import Settings
from streams.due import delayed_record
from streams.topics import ensure_topics
from tests.command_line import RAJADA, Running
from tests.command_line import start as start_program

PARTITIONS = 4
READY_S = 40.0
DELAYS = [*RAJADA, "delays"]
MUTE = [sys.executable, "-m", "tests.integration.mute_forwarder"]
STUCK = [sys.executable, "-m", "tests.integration.stuck_forwarder"]

Letter = tuple[bytes | None, bytes | None, dict[str, bytes | None]]
"""Key, value, headers."""


@dataclass
class Forwarder:
    """One process."""

    process: Running
    status: Path
    log_file: Path

    def wait_ready(self) -> None:
        """Until it has joined the group and does its work."""
        until(lambda: self.state() == "ready", READY_S, self.log)

    def state(self) -> str | None:
        """What it last said about itself."""
        said = status.read(self.status, "delays")
        return said.state if said is not None and said.pid == self.process.pid else None

    def counters(self) -> Mapping[str, int | str]:
        """What it has counted."""
        told = status.read_counters(self.status, "delays")
        return told.values if told is not None and told.pid == self.process.pid else {}

    def log(self) -> str:
        """What it has logged."""
        return self.log_file.read_text(errors="replace")

    def send_signal(self, how: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(how)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it; returns its exit code."""
        self.process.send_signal(how)
        return self.process.wait(30)


@dataclass(frozen=True)
class Arrival:
    """A record that a committed-only reader has seen in `dispatch.jobs`, and when (Unix ms)."""

    partition: int
    timestamp: int
    key: bytes | None
    headers: list[Header]
    seen_ms: float


@dataclass
class DelayLab:
    """One installation."""

    kafka: str
    prefix: str
    folder: Path
    due: dict[str, int] = field(default_factory=dict)
    """Of each record that was delayed, by its name."""
    arrivals: dict[str, list[Arrival]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = Settings(topic_prefix=self.prefix, partitions=PARTITIONS)
        ensure_topics(self.kafka, self.settings)
        self._forwarders: list[Forwarder] = []
        self._producer = Producer(
            {
                "bootstrap.servers": self.kafka,
                "partitioner": "murmur2_random",
                "message.max.bytes": 8_000_000,
            }
        )
        self._reader = self.reader(JOBS)

    def topic(self, name: str) -> str:
        """The full name."""
        return self.settings.topic(name)

    # -- forwarders
    def start(
        self, home: str = "home", *, command: Sequence[str] = DELAYS, wait: bool = True, **environment: str
    ) -> Forwarder:
        """One more process; those with the same `home` share a folder."""
        number = len(self._forwarders)
        (self.folder / home).mkdir(parents=True, exist_ok=True)
        log = self.folder / f"delays-{number}.log"
        folder = self.folder / f"status-{number}"
        process = start_program(
            command,
            env={
                **os.environ,
                "KAFKA_BOOTSTRAP_SERVERS": self.kafka,
                "RAJADA_TOPIC_PREFIX": self.prefix,
                "RAJADA_PARTITIONS": str(PARTITIONS),
                "RAJADA_SESSION_TIMEOUT_S": "2",
                "RAJADA_HOME": str(self.folder / home),
                "RAJADA_LOG_FORMAT": "json",
                status.STATUS_DIR: str(folder),
                **environment,
            },
            log=log,
        )
        made = Forwarder(process, folder, log)
        self._forwarders.append(made)
        if wait:
            made.wait_ready()
        return made

    def close(self) -> None:
        """End everything."""
        for one in self._forwarders:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGCONT)
                one.process.kill()
                one.process.wait(10)
        self._reader.close()

    # -- records
    def delay(self, *delays_ms: int, partition: int | None = None, name: str = "r") -> None:
        """Send records that shall arrive so much later from now; their names are counted through."""
        for delay_ms in delays_ms:
            now_ms = time.time_ns() // 1_000_000
            value = f"{name}{len(self.due)}"
            self.due[value] = now_ms + delay_ms
            topic, (key, raw, _, headers) = delayed_record(
                f"org:{value}".encode(),
                value.encode(),
                [("traceparent", b"00-a"), ("null", None)],
                due_ms=now_ms + delay_ms,
                now_ms=now_ms,
                original_timestamp_ms=now_ms,
            )
            self.send(topic, key, raw, headers, partition=partition)
        self.flush()

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        *,
        partition: int | None = None,
    ) -> None:
        """Send one record as it is; `flush` makes it durable."""
        self._producer.produce(
            self.topic(topic),
            value,
            key,
            -1 if partition is None else partition,
            headers=list(headers),
        )
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all is durable."""
        assert self._producer.flush(20) == 0

    # -- what comes out
    def reader(self, topic: str) -> Consumer:
        """A reader of committed records, from the start."""
        reader = Consumer(
            {
                "bootstrap.servers": self.kafka,
                "group.id": f"{self.prefix}reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        reader.assign([TopicPartition(self.topic(topic), partition, 0) for partition in range(PARTITIONS)])
        return reader

    def look(self, seconds: float) -> None:
        """Take in what arrives for a while."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            message = self._reader.poll(min(left, 0.2))
            if message is None or message.error() is not None:
                continue
            seen_ms = time.time() * 1000
            name = (message.value() or b"").decode()
            self.arrivals.setdefault(name, []).append(
                Arrival(
                    message.partition() or 0,
                    message.timestamp()[1],
                    message.key(),
                    list(message.headers() or []),  # type: ignore[arg-type]
                    seen_ms,
                )
            )

    def until_arrived(self, timeout_s: float, *names: str) -> None:
        """Wait until all of these (default: everything that was delayed) are there."""
        deadline = time.monotonic() + timeout_s
        missing = set(names or self.due)
        while missing := missing - self.arrivals.keys():
            if time.monotonic() > deadline:
                logs = "\n".join(one.log()[-2_000:] for one in self._forwarders)
                raise AssertionError(f"{len(missing)} of {len(self.due)} did not arrive\n{logs}")
            self.look(0.1)

    def check(self, *, settle_s: float = 0.5) -> None:
        """Everything arrived exactly once and never early, and nothing else did."""
        self.look(settle_s)
        assert self.arrivals.keys() == self.due.keys()
        twice = {name: len(all_) for name, all_ in self.arrivals.items() if len(all_) > 1}
        assert not twice, f"{len(twice)} arrived more than once"
        early = [name for name, (one,) in self.arrivals.items() if one.timestamp < self.due[name]]
        early += [name for name, (one,) in self.arrivals.items() if one.seen_ms < self.due[name]]
        assert not early, f"{len(early)} came early"

    def late_ms(self) -> list[float]:
        """How late each was when it was read, in rising order."""
        return sorted(one.seen_ms - self.due[name] for name, (one,) in self.arrivals.items())

    def all_of(self, topic: str, count: int, timeout_s: float = 20.0) -> list[Letter]:
        """(key, value, headers) of so many records of a topic; fails when there are more or fewer."""
        reader, found = self.reader(topic), []
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = reader.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.key(), message.value(), dict(message.headers() or [])))  # type: ignore[arg-type]
                if len(found) == count:
                    deadline = min(deadline, time.monotonic() + 0.5)
        reader.close()
        assert len(found) == count, f"{len(found)} in {topic}, not {count}"
        return found

    def dead(self, count: int) -> list[Letter]:
        """The dead letters."""
        return self.all_of(DEAD, count)

    def outcomes(self, count: int) -> list[bytes]:
        """The outcomes' bytes."""
        return [value or b"" for _, value, _ in self.all_of(OUTCOMES, count)]


def until(true: Callable[[], bool], timeout_s: float, told: Callable[[], str] = str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)
