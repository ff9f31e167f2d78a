"""The executor against a bare httpx loop, with the same concurrency and the same engine, in one run.

`python -m bench.executor [--jobs N] [--rounds N] [--concurrency N] [--delay-ms N]` starts what it needs:
Kafka, Postgres, the stand-in engine (turns of 20 ms) and a worker. Each round runs httpx alone, then our
handler of turns alone (over small pools: httpx' own costs more with each connection), then the worker over as
many job records of as many contacts: from the first record's append to the last `done`; every other round
goes the other way round, and a first one warms up. One machine carries the loop, the engine and the servers;
the processors' own clocks are printed too.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.http import Measure, bare, engine_process, handled, turns
from bench.processes import Process, running
from bench.servers import Servers, own_database, own_topics, servers
from schemas.codec import decode_outcome, encode_job
from schemas.records import Job
from settings import Settings
from streams import topics

PATIENCE_S = 300.0


class Wrong(RuntimeError):
    """The outcomes are not what the jobs imply; the message says how."""


@dataclass(frozen=True, slots=True)
class Round:
    """What the worker did."""

    jobs: int
    seconds: float
    cpu_s: float
    peak_mib: float

    @property
    def per_second(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds a job."""
        return self.cpu_s / self.jobs * 1e6


def work_off(at: Settings, worker: Process, jobs: list[Job]) -> Round:
    """Give the worker these jobs and wait until each is done. Raises Wrong."""
    bootstrap = at.bootstrap()
    used = worker.usage().cpu_s
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    began = time.time()
    for job in jobs:
        key = f"{job.organization_id}:{job.contact_id}"
        producer.produce(at.topic(topics.JOBS), encode_job(job), key)
        producer.poll(0)
    producer.flush()
    ended = _ended(at, worker, {job.id for job in jobs})
    usage = worker.usage()
    return Round(len(jobs), ended - began, usage.cpu_s - used, usage.peak_mib)


def _ended(at: Settings, worker: Process, wanted: set[str]) -> float:
    """Follow the outcomes until each job is done; Unix seconds of the last one."""
    consumer = Consumer(
        {
            "bootstrap.servers": at.bootstrap(),
            "group.id": "bench-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    name = at.topic(topics.OUTCOMES)
    consumer.assign([TopicPartition(name, p, 0) for p in range(at.partitions)])
    done: Counter[str] = Counter()
    last, deadline = 0.0, time.monotonic() + PATIENCE_S
    try:
        while len(done) < len(wanted):
            if time.monotonic() > deadline:
                raise Wrong(f"{len(wanted) - len(done)} of {len(wanted)} jobs were not done")
            worker.ensure_alive()
            for message in consumer.consume(5_000, 0.5):
                outcome = decode_outcome(message.value() or b"")
                if outcome.job is not None and outcome.job.id in wanted and outcome.job_status == "done":
                    done[outcome.job.id] += 1
                    last = max(last, message.timestamp()[1] / 1000)
    finally:
        consumer.close()
    if max(done.values()) > 1:
        raise Wrong("a job was done twice")
    return last


def measure(
    at: Servers, jobs: int, rounds: int, concurrency: int, delay_ms: int
) -> list[tuple[Measure, Measure, Round]]:
    """All three, in turns, in one run; the first round is not among what is returned."""
    loops: list[Measure] = []
    handlers: list[Measure] = []
    ours: list[Round] = []
    with engine_process(delay_ms) as url, own_database(at.admin_url) as database, own_topics(at) as settings:
        more = {
            "AGENT_ENGINE_URL": url,
            "EXECUTOR_CONCURRENCY": str(concurrency),
            "RAJADA_CHANNEL_RATE_PER_S": "0",
        }
        with running("worker", settings=settings, database_url=database, more=more) as processes:
            worker = processes["worker"]
            worker.wait_ready()
            works: tuple[Callable[[], None], ...] = (
                lambda: loops.append(asyncio.run(bare(url, turns(jobs), concurrency))),
                lambda: handlers.append(asyncio.run(handled(url, turns(jobs), concurrency))),
                lambda: ours.append(work_off(settings, worker, turns(jobs))),
            )
            for number in range(rounds + 1):
                for work in works if number % 2 else works[::-1]:
                    work()
    return list(zip(loops, handlers, ours, strict=True))[1:]


def main() -> int:
    """Run it and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--delay-ms", type=int, default=20)
    given = parser.parse_args()
    with servers() as at:
        found = measure(at, given.jobs, given.rounds, given.concurrency, given.delay_ms)
    for loop, handler, ours in found:
        print(f"bare httpx loop  {loop}")
        print(f"handler alone    {handler}")
        print(
            f"executor         {ours.per_second:,.0f} jobs/s, {ours.cpu_us:,.0f} µs of CPU a job, "
            f"peak {ours.peak_mib:.0f} MiB"
        )
    _ratio("bare loop", [ours.per_second / loop.per_second for loop, _, ours in found])
    _ratio("handler alone", [ours.per_second / handler.per_second for _, handler, ours in found])
    return 0


def _ratio(beside: str, ratios: list[float]) -> None:
    print(f"executor / {beside}: {min(ratios):.2f} / {statistics.median(ratios):.2f} / {max(ratios):.2f}")


if __name__ == "__main__":
    raise SystemExit(main())
