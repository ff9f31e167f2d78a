"""How many group links a second `rajada web` takes in, and how long a request waits at 100 a second.

`python -m bench.web [--requests N] [--connections N] [--rate N] [--seconds N]` starts the service as a
process of its own on a Postgres that is given (DATABASE_URL) or embedded, and POSTs enrolments, each another
one, over kept connections. Nothing of the pipeline runs beside it. The service's own processor time says more
than the wall where others share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg

import status
from bench.servers import own_database, postgres
from db.queries import load
from db.tokens import new_token

READY_S: Final = 60.0
WARM_UP: Final = 200
_ROOT: Final = Path(__file__).parents[1]


class Caller:
    """One connection that is kept, and asked one thing after the other."""

    def __init__(self, host: str, port: int, token: str, organization_id: UUID) -> None:
        self._at = host, port
        self._head = (
            f"POST / HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._organization_id = str(organization_id)

    async def connect(self) -> None:
        """Open the connection."""
        self._reader, self._writer = await asyncio.open_connection(*self._at)

    async def enrol(self, enrolment: str) -> float:
        """POST one enrolment; returns the seconds until its whole answer. AssertionError unless it is 202."""
        body = json.dumps(
            {
                "flow": "personal", "organizationId": self._organization_id, "enrolmentId": enrolment,
                "studentName": "Ana Souza", "phone": "+5511988887777", "groupLink": "https://x.example/y",
                "templateName": "welcome_group", "templateLanguage": "pt_BR", "delayMs": 600_000,
            }
        ).encode()  # fmt: skip
        begun = time.perf_counter()
        self._writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        took = time.perf_counter() - begun
        assert head.startswith(b"http/1.1 202"), answer
        return took

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@contextmanager
def service(url: str, folder: Path) -> Iterator[tuple[str, int]]:
    """`rajada web` as a process; gives its URL and process id."""
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "RAJADA_WEB_RATE_PER_S": "0",
        "RAJADA_LOG_LEVEL": "WARNING",
        status.STATUS_DIR: str(folder),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "web", "--port", "0"], env=environment, cwd=_ROOT
    )
    try:
        deadline = time.monotonic() + READY_S
        while (said := status.read(folder, "web")) is None or said.state != "ready":
            assert process.poll() is None and time.monotonic() < deadline, "rajada web did not start"
            time.sleep(0.05)
        yield said.reason, process.pid
    finally:
        process.terminate()
        process.wait(30)


async def at_once(callers: list[Caller], requests: int, mark: str) -> float:
    """Every caller asks as fast as it is answered; returns the requests a second of all."""
    left = iter(range(requests))

    async def ask(caller: Caller) -> None:
        """One after the other, as long as some are left."""
        for number in left:
            await caller.enrol(f"{mark}-{number}")

    begun = time.perf_counter()
    await asyncio.gather(*(ask(caller) for caller in callers))
    return requests / (time.perf_counter() - begun)


async def paced(callers: list[Caller], rate: float, seconds: float) -> list[float]:
    """So many a second, each at its time whatever became of the others; returns the sorted waits, from when
    a request was due to its answer."""
    waits: list[float] = []
    free: asyncio.Queue[Caller] = asyncio.Queue()
    for caller in callers:
        free.put_nowait(caller)
    begun = time.perf_counter()

    async def one(number: int) -> None:
        """One at its time."""
        due = begun + number / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        caller = await free.get()
        try:
            await caller.enrol(f"paced-{number}")
        finally:
            free.put_nowait(caller)
        waits.append(time.perf_counter() - due)

    await asyncio.gather(*(one(number) for number in range(int(rate * seconds))))
    return sorted(waits)


def processor_s(pid: int) -> float:
    """Seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(url: str, pid: int, token: str, organization_id: UUID, asked: argparse.Namespace) -> None:
    """Both measurements, printed."""
    parts = urlsplit(url)
    callers = [
        Caller(parts.hostname or "", parts.port or 0, token, organization_id)
        for _ in range(asked.connections)
    ]
    await asyncio.gather(*(caller.connect() for caller in callers))
    await at_once(callers, WARM_UP, "warm")
    used = processor_s(pid)
    rates = [await at_once(callers, asked.requests, f"r{n}-{uuid4().hex[:6]}") for n in range(3)]
    print(f"{asked.requests} POSTs over {asked.connections} connections, three times:", end=" ")
    used = (processor_s(pid) - used) / (3 * asked.requests)
    print(", ".join(f"{rate:,.0f}/s" for rate in rates), f"({used * 1e3:.2f} ms of processor each)")
    waits = await paced(callers, asked.rate, asked.seconds)
    p50, p99 = (waits[int(len(waits) * share)] * 1_000 for share in (0.5, 0.99))
    print(
        f"{asked.rate:g} a second for {asked.seconds:g} s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
        f"most {waits[-1] * 1_000:.1f} ms"
    )
    for caller in callers:
        caller.close()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rajada-bench-") as home, postgres() as admin_url:
        _run(admin_url, Path(home), asked)


def _run(admin_url: str, home: Path, asked: argparse.Namespace) -> None:
    with own_database(admin_url) as url:
        organization_id, token = uuid4(), new_token()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO organizations (id, name, status) VALUES (%s, 'school', 'active')",
                [organization_id],
            )
            values = {"id": token.id, "organization_id": organization_id, "name": "", "made_by": None}
            connection.execute(load("tokens_add"), {**values, "secret_sha256": token.digest})
        folder = home / "status"
        folder.mkdir()
        with service(url, folder) as (at, pid):
            asyncio.run(measure(at, pid, token.text, organization_id, asked))


if __name__ == "__main__":
    main()
