"""The bare httpx loop: the most that an executor on this machine could do, and what its HTTP alone costs.

`python -m bench.http [--requests N] [--concurrency N] [--delay-ms N]` starts the stand-in engine as a process
of its own, whose turns take 20 ms, and POSTs one turn after the other to it, `--concurrency` at a time: first
with httpx and nothing around it, then with the handler of turns. `bare` and `handled` are for other
benchmarks. The processors' own clocks say more than the wall where the engine shares the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

import status
from schemas.records import EventRef, Job
from settings import Settings
from streams.handlers.answers import Done
from streams.handlers.http import HttpClient
from streams.handlers.inbound_turn import InboundTurn
from streams.trace_context import own_traceparent

READY_S = 30.0
WARM_UP = 200
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Measure:
    """What a loop did."""

    requests: int
    wall_s: float
    cpu_s: float
    """Of this process: the client's side alone."""
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Requests a second."""
        return self.requests / self.wall_s

    @property
    def cpu_us(self) -> float:
        """CPU microseconds a request."""
        return self.cpu_s / self.requests * 1e6

    def __str__(self) -> str:
        return (
            f"{self.per_second:,.0f} requests/s, {self.cpu_us:,.0f} µs of CPU a request "
            f"(by it alone {1e6 / self.cpu_us:,.0f}/s); p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms"
        )


@contextmanager
def engine_process(delay_ms: int = 20) -> Iterator[str]:
    """URL of a stand-in engine in a process of its own, whose turns take `delay_ms`."""
    with tempfile.TemporaryDirectory(prefix="rajada-bench-") as folder:
        log = Path(folder) / "engine.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", "engine", "--port", "0", "--delay-ms", str(delay_ms)],
                env={**os.environ, status.STATUS_DIR: folder},
                stdout=output,
                stderr=output,
                cwd=_ROOT,
            )
        try:
            yield _url(process, Path(folder), log)
        finally:
            process.terminate()
            process.wait()


def _url(process: subprocess.Popen[bytes], folder: Path, log: Path) -> str:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        said = status.read(folder, "engine")
        if said is not None:
            return said.reason
        time.sleep(0.01)
    raise RuntimeError(f"the engine is not ready:\n{log.read_text(errors='replace')[-3_000:]}")


def turns(count: int) -> list[Job]:
    """Jobs of as many contacts, each with two events."""
    return [_turn() for _ in range(count)]


def _turn() -> Job:
    ids = [str(uuid.uuid4()) for _ in range(8)]
    contact, first, second = ids[2], ids[3], ids[4]
    payload = {
        "conversation_id": ids[5],
        "contact_id": contact,
        "channel_session_id": ids[6],
        "inbound_message_id": ids[7],
        "crm_event_id": first,
        "event_ids": [first, second],
    }
    return Job(
        id=ids[0],
        organization_id=ids[1],
        contact_id=contact,
        kind="inbound_turn",
        source_event_id=first,
        seq=2,
        created_at_ms=0,
        run_after_ms=0,
        payload=json.dumps(payload),
        events=(EventRef(first), EventRef(second)),
    )


async def bare(url: str, jobs: Sequence[Job], concurrency: int) -> Measure:
    """httpx and nothing around it: the requests are made beforehand, their answers only looked at."""
    asked = [
        (
            f'{{"job_id":"{job.id}","kind":"{job.kind}","attempt":1,"payload":{job.payload}}}'.encode(),
            {
                "Content-Type": "application/json",
                "Idempotency-Key": job.id,
                "traceparent": own_traceparent(job.id),
            },
        )
        for job in jobs
    ]
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(limits=limits, trust_env=False, timeout=30.0) as client:

        async def one(number: int) -> None:
            """One request."""
            body, headers = asked[number]
            answer = await client.post(url, content=body, headers=headers)
            assert answer.status_code == 200, answer.text

        return await _measured(one, len(jobs), concurrency)


async def handled(url: str, jobs: Sequence[Job], concurrency: int) -> Measure:
    """The same through the handler of turns: limits, trace, decision and all."""
    client = HttpClient()
    handler = InboundTurn(client, Settings.model_validate({"agent_engine_url": url}))

    async def one(number: int) -> None:
        """One turn."""
        answer = await handler.run(jobs[number], 1, ())
        assert isinstance(answer, Done), answer

    try:
        return await _measured(one, len(jobs), concurrency)
    finally:
        await client.close()


async def _measured(one: Callable[[int], Awaitable[None]], count: int, concurrency: int) -> Measure:
    """Call `one` with every number, so many at a time; the first calls open connections and don't count."""
    numbers = iter(range(count))
    took: list[float] = []

    async def worker(upto: int) -> None:
        """One of those that work side by side."""
        for number in numbers:
            started = time.perf_counter()
            await one(number)
            took.append(time.perf_counter() - started)
            if number >= upto:
                return

    warm_up = min(max(WARM_UP, 2 * concurrency), count // 2)
    await asyncio.gather(*(worker(warm_up) for _ in range(concurrency)))
    took.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker(count) for _ in range(concurrency)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    cuts = statistics.quantiles(took, n=100)
    return Measure(len(took), wall, cpu, cuts[49] * 1e3, cuts[98] * 1e3)


def main() -> int:
    """Run both loops, twice in turns, and print the better round of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=8_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--delay-ms", type=int, default=20, help="how long a turn takes")
    given = parser.parse_args()
    with engine_process(given.delay_ms) as url:
        rounds = [
            (
                asyncio.run(bare(url, turns(given.requests), given.concurrency)),
                asyncio.run(handled(url, turns(given.requests), given.concurrency)),
            )
            for _ in range(2)
        ]
    plain = max((one for one, _ in rounds), key=lambda measure: measure.per_second)
    ours = max((one for _, one in rounds), key=lambda measure: measure.per_second)
    print(f"{given.concurrency} at a time, turns of {given.delay_ms} ms:")
    print(f"  bare httpx:  {plain}")
    print(f"  the handler: {ours}")
    print(f"  the handler beside bare httpx: {ours.per_second / plain.per_second:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
