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
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from confluent_kafka import Producer

from bench.servers import broker
from chaos.transport import create_topics, delete_topics
from streams.contact import Contact, Window, WindowEvent, encode_contact

PARTITIONS = 4
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


def recover(bootstrap: str, name: str, folder: Path, keys: int) -> subprocess.Popen[bytes]:
    """Start a worker, wait until it works, tell how long that took."""
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
    while not (found := TOLD.search(log.read_text())):
        if process.poll() is not None or time.monotonic() - began > 300:
            raise RuntimeError(log.read_text()[-3000:])
        time.sleep(0.05)
    held, read, took = int(found[1]), int(found[2]), float(found[3])
    if held != keys:
        raise RuntimeError(f"{held} keys instead of {keys}")
    ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    processor = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]  # Linux has it
    print(
        f"{held:,} keys, {read:,} read from the changelog: {took:.1f} s, "
        f"{time.monotonic() - began:.1f} s from the start of the process, "
        f"{processor:.1f} s of a processor; {peak} MiB; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return process


def main() -> None:
    """Print both times."""
    parser = argparse.ArgumentParser(prog="python -m bench.recovery")
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args()
    with broker() as bootstrap:
        measure(bootstrap, options)


def measure(bootstrap: str, options: argparse.Namespace) -> None:
    """Recover from the changelog, then from snapshots."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    changelog = f"{name}-contacts-changelog"
    folder = Path(tempfile.mkdtemp(prefix="rajada-bench-"))
    create_topics(bootstrap, [f"{name}.in"], PARTITIONS)
    create_topics(bootstrap, [changelog], PARTITIONS, {"cleanup.policy": "compact"})
    try:
        size = fill(bootstrap, changelog, options.keys)
        print(f"{options.keys:,} contacts of {size // options.keys} bytes")
        for again in (False, True):
            process = recover(bootstrap, name, folder, options.keys)
            try:
                deadline = time.monotonic() + 180
                while not again and len(list(folder.rglob("*.snapshot"))) < PARTITIONS:
                    if time.monotonic() > deadline:
                        raise RuntimeError("no snapshots were written")
                    time.sleep(0.5)
            finally:
                process.kill()
                process.wait()
    finally:
        delete_topics(bootstrap, [f"{name}.in", changelog])
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
