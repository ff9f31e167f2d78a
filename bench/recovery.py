"""How long a worker reads before it works: from the changelog, and from its own disk.

    python -m bench.recovery [--keys 1000000]

Fills a changelog with contacts that have an open window, starts a worker on it, waits until the worker has
written its snapshots, kills it with kill -9, and starts it again. On the Kafka that
KAFKA_BOOTSTRAP_SERVERS names, else an embedded one; makes and drops topics of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from bench.processes import cpu_s, peak_mib
from bench.servers import broker
from chaos.transport import create_topics, delete_topics
from streams.contact import Contact, Window, WindowEvent, encode_contact

PARTITIONS = 4
SNAPSHOTS_S = 180.0
TOLD = re.compile(r"table recovered\s+keys=(\d+).*read=(\d+).*took_s=([\d.]+)")


def fill(bootstrap: str, changelog: str, keys: int) -> int:
    """Write the contacts; returns the bytes of their values."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000}
    )
    written = 0
    for i in range(keys):
        member, session, at_ms = str(uuid.UUID(int=i)), str(uuid.UUID(int=7)), 1_700_000_000_000
        events = [WindowEvent(member, str(uuid.UUID(int=i + n)), session, i, at_ms) for n in range(2)]
        window = Window(str(uuid.UUID(int=i)), events, 1_700_000_008_000, 8_000, 100)
        value = encode_contact(Contact(str(uuid.UUID(int=9)), i, [window], touched_ms=1_700_000_000_000))
        written += len(value)
        producer.produce(changelog, value, f"{uuid.UUID(int=1)}:{uuid.UUID(int=i)}", i % PARTITIONS)
        if i % 1000 == 0:
            producer.poll(0)
            while len(producer) > 300_000:
                producer.poll(0.1)
    producer.flush()
    return written


@dataclass(frozen=True, slots=True)
class Recovered:
    """A start."""

    keys: int
    read: int
    """Records read from the changelog."""
    seconds: float
    """Of recovery alone."""
    until_ready_s: float
    """From the start of the process."""
    cpu_s: float
    peak_mib: float

    def __str__(self) -> str:
        """In one line."""
        return (
            f"{self.keys:,} keys, {self.read:,} read from the changelog: {self.seconds:.1f} s, "
            f"{self.until_ready_s:.1f} s from the start of the process, {self.cpu_s:.1f} s of a processor; "
            f"{self.peak_mib:.0f} MiB; load {os.getloadavg()[0]:.1f}"
        )


def recover(bootstrap: str, name: str, folder: Path, keys: int) -> tuple[Recovered, subprocess.Popen[bytes]]:
    """Start a worker and wait until it works. RuntimeError when it doesn't, or holds other keys."""
    log = folder / f"log-{time.monotonic_ns()}"
    environment = {
        "BENCH_ID": name, "BENCH_BOOTSTRAP": bootstrap, "BENCH_DATA": str(folder / "data"),
        "BENCH_PARTITIONS": str(PARTITIONS),
    }  # fmt: skip
    command = [sys.executable, "-m", "faust", "-A", "bench.recovery_app", "worker", "-l", "info"]
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--without-web"], env={**os.environ, **environment}, stdout=output, stderr=output
        )
    try:
        while not (found := TOLD.search(log.read_text())):
            if process.poll() is not None or time.monotonic() - began > 300:
                raise RuntimeError(log.read_text()[-3000:])
            time.sleep(0.05)
        if int(found[1]) != keys:
            raise RuntimeError(f"{found[1]} keys instead of {keys}")
        took, peak = time.monotonic() - began, peak_mib(process.pid)
        told = Recovered(keys, int(found[2]), float(found[3]), took, cpu_s(process.pid), peak)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return told, process


def main() -> None:
    """Print both times."""
    parser = argparse.ArgumentParser(prog="python -m bench.recovery")
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args()
    with broker() as bootstrap, filled(bootstrap, options.keys) as name:
        for one in both(bootstrap, name, options.keys):
            print(one, flush=True)


@contextmanager
def filled(bootstrap: str, keys: int) -> Iterator[str]:
    """Name of an application whose changelog holds so many contacts; its topics are deleted afterwards."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    changelog = f"{name}-contacts-changelog"
    create_topics(bootstrap, [f"{name}.in"], PARTITIONS)
    create_topics(bootstrap, [changelog], PARTITIONS, {"cleanup.policy": "compact"})
    try:
        fill(bootstrap, changelog, keys)
        yield name
    finally:
        delete_topics(bootstrap, [f"{name}.in", changelog])


def both(bootstrap: str, name: str, keys: int) -> Iterator[Recovered]:
    """Recover from the changelog; and, once that worker has snapshots and was killed, from its disk."""
    with tempfile.TemporaryDirectory(prefix="rajada-bench-", ignore_cleanup_errors=True) as home:
        folder = Path(home)
        for again in (False, True):
            told, process = recover(bootstrap, name, folder, keys)
            try:
                yield told
                deadline = time.monotonic() + SNAPSHOTS_S
                while not again and len(list(folder.rglob("*.snapshot"))) < PARTITIONS:
                    if time.monotonic() > deadline:
                        raise RuntimeError("no snapshots were written")
                    time.sleep(0.5)
            finally:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
