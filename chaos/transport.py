"""Hurt the transport's workers at random and audit what they leave behind.

    python -m chaos.transport --seed 1 --seconds 20 --bootstrap 127.0.0.1:9092
    python -m chaos.transport --series 20 --seconds 30          # each run another shape, own broker

One run: records of many keys are produced at a steady rate while workers join, are killed with kill -9,
terminated, and stopped for up to 8 s (longer than a session), and perhaps the broker dies. Afterwards every
record must have been processed and committed, and every key's state in the changelog must be what the log
implies. Exit status 1 otherwise. `--stock` does the same to workers on Faust's own transport.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from .audit import Findings, Log, Truth, judge_changelog, judge_deliveries, judge_pauses
from .coverage import coverage, missing
from .plan import TABLES, Plan
from .workers import Broker, Worker, Workers

SINGLE_EVERY = 8
"""One of so many records goes to the topic that is consumed record by record."""
PAUSE_S = 3.0
"""Beside the session timeout: so long may a record wait after one injury."""
COLUMNS = (
    "seed", "shape", "records", "workers", "lost", "stuck", "skipped", "zombie writes", "wrong keys",
    "late writes, told by their token", "pause after one injury, s", "longest pause, s",
)  # fmt: skip


def create_topics(
    bootstrap: str, names: list[str], partitions: int, config: dict[str, str] | None = None
) -> None:
    """Create the topics of a run; they must not exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.create_topics([NewTopic(name, partitions, 1, config=config or {}) for name in names])
    for future in futures.values():
        future.result(30)


def delete_topics(bootstrap: str, names: list[str]) -> None:
    """Delete the topics of a run."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics(names).values():
        future.exception(30)


def produce(plan: Plan, prefix: str, truth: Truth) -> None:
    """Send `rate` records a second for the length of the run."""
    dice = random.Random(plan.seed + 1)
    producer = Producer(
        {"bootstrap.servers": plan.bootstrap, "linger.ms": 5, "enable.idempotence": True, "log_level": 0}
    )
    start = monotonic()
    for i in range(int(plan.rate * plan.seconds)):
        number = dice.randrange(plan.keys)
        key, partition = f"k{number}", number % plan.partitions
        producer.produce(f"{prefix}.in", b"e", key, partition, on_delivery=truth.report)
        if i % SINGLE_EVERY == 0:
            producer.produce(f"{prefix}.one", b"e", key, partition, on_delivery=truth.report)
        if i % 30 == 0:
            producer.poll(0)
            sleep(max(0.0, start + i / plan.rate - monotonic()))
    producer.flush()


def wait_ready(worker: Worker, timeout: float = 60.0) -> None:
    """Wait until a worker has said that it works. Raises TimeoutError with the end of its log."""
    deadline = monotonic() + timeout
    while not worker.ready:
        if monotonic() > deadline or worker.process.poll() is not None:
            raise TimeoutError(f"worker {worker.number} did not start:\n{worker.log.read_text()[-3000:]}")
        sleep(0.1)


def hurt(plan: Plan, workers: Workers) -> None:
    """Do random things to the workers until shortly before the end of the load."""
    dice = random.Random(plan.seed)
    end = monotonic() + plan.seconds - 2

    def pause(seconds: float) -> None:
        until = monotonic() + seconds
        while monotonic() < until:
            workers.wake()
            workers.supervise()
            sleep(0.05)

    outage = monotonic() + dice.uniform(0.2, 0.8) * plan.seconds if workers.broker else float("inf")
    pause(dice.uniform(0.5, 3))
    while monotonic() < end:
        if monotonic() > outage:
            outage = float("inf")
            workers.outage()
        else:
            workers.hurt(dice)
        pause(max(plan.apart, dice.choice([dice.uniform(0.1, 1.5), dice.uniform(1, 6)])))
    if len(workers.running) < 2:
        workers.start()
    while workers.wake():
        sleep(0.05)
    workers.supervise()


def run(plan: Plan, folder: Path, broker: Broker | None = None) -> Findings:
    """One run from the creation of its topics to the audit; `broker`: the one to hurt if the plan says so."""
    prefix = plan.prefix
    sources = [f"{prefix}.in", f"{prefix}.one"]
    changelogs = [f"{prefix}-{name}-changelog" for name in TABLES[: plan.tables]]
    create_topics(plan.bootstrap, [*sources, f"{prefix}.out"], plan.partitions)
    workers = Workers(
        folder, plan.environment(prefix, folder), plan.module, plan.static, broker if plan.broker else None
    )
    truth, findings = Truth(), Findings()
    log = Log(plan.bootstrap, prefix, sources, plan.partitions)
    try:
        wait_ready(workers.start())
        load = threading.Thread(target=produce, args=(plan, prefix, truth))
        load.start()
        if plan.hurt:
            hurt(plan, workers)
        load.join()
        findings.drain_s = round(log.wait_committed(150, patience=45, meanwhile=workers.supervise), 1)
        sleep(0.5)
        findings.crashes = len(workers.unexpected_exits())
        findings.details["exits"] = workers.unexpected_exits()
        workers.finish(10)
        first = judge_deliveries(findings, truth, folder, prefix, log.ends(), log.committed())
        judge_pauses(findings, truth, first, workers.injuries)
        for changelog in changelogs:
            judge_changelog(findings, truth, log.read(changelog, plan.partitions))
        findings.workers = len(workers.all)
        findings.ended_themselves = sum(worker.process.poll() == 70 for worker in workers.all)
        findings.details["events"] = workers.told()
        findings.details["coverage"] = coverage(workers, plan.session_s)
    finally:
        workers.finish(5)
        log.close()
        delete_topics(plan.bootstrap, [*sources, f"{prefix}.out", *changelogs])
    return findings


@contextmanager
def own_broker() -> Iterator[tuple[str, Broker]]:
    """A Kafka that may be hurt: its bootstrap.servers and itself."""
    from ops.embedded.kafka import EmbeddedKafka

    folder = Path(tempfile.mkdtemp(prefix="rajada-chaos-kafka-"))
    try:
        with EmbeddedKafka(folder / "data") as server:
            yield server.bootstrap, server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def show(plan: Plan, findings: Findings, folder: Path) -> None:
    """Print the result for a reader."""
    print(f"seed {plan.seed} ({plan.told()}): {findings.records} records, {findings.workers} workers")
    for event in findings.details.get("events", ()):
        print(f"  {event}")
    for field in dataclasses.fields(findings):
        value = getattr(findings, field.name)
        if field.name not in ("details", "records", "workers"):
            mark = "VIOLATION" if field.name in findings.violations else ""
            print(f"{field.name:20} {value:>10} {mark}")
    for name in ("missing", "wrong", "exits", "slowest"):
        if findings.details.get(name):
            print(f"{name}: {findings.details[name]}")
    if findings.violations:
        print(f"logs and journals: {folder}")


def one(plan: Plan, broker: Broker | None, as_json: bool) -> int:
    """One run, told; the exit status."""
    folder = Path(tempfile.mkdtemp(prefix="rajada-chaos-"))
    findings = run(plan, folder, broker)
    if as_json:
        print(
            json.dumps({"seed": plan.seed, "violations": findings.violations, **dataclasses.asdict(findings)})
        )
    else:
        show(plan, findings, folder)
    if not findings.violations:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if findings.violations else 0


def series(plan: Plan, broker: Broker, runs: int) -> int:
    """Many runs of different shapes, a table row each; half of the seeds are fixed. The exit status."""
    met: Counter[str] = Counter()
    bad: list[int] = []
    longest = single = 0.0
    records = 0
    print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS), flush=True)
    for number in range(runs):
        seed = plan.seed + number if number < runs // 2 else random.SystemRandom().randrange(10**6)
        shape = dataclasses.replace(plan, seed=seed).varied(number)
        folder = Path(tempfile.mkdtemp(prefix="rajada-chaos-"))
        findings = run(shape, folder, broker)
        met += findings.details["coverage"]
        records += findings.records
        longest = max(longest, findings.longest_pause_s)
        single = max(single, findings.longest_single_pause_s)
        wrong = list(findings.violations)
        wrong += ["pause"] if findings.longest_single_pause_s > shape.session_s + PAUSE_S else []
        print("| " + " | ".join(row(shape, findings)) + " |", flush=True)
        if wrong:
            print(f"seed {seed}: {wrong}, logs and journals in {folder}", flush=True)
            bad.append(seed)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{runs} runs, {records} records, {len(bad)} bad: {bad}")
    print(f"longest pause {longest:.1f} s, after one injury {single:.1f} s")
    print("met: " + ", ".join(f"{name} {n}" for name, n in sorted(met.items()) if n))
    left = missing(met) if not plan.stock else []
    print(f"not met: {', '.join(left) or 'nothing that was wanted'}")
    return 1 if bad or left else 0


def row(plan: Plan, findings: Findings) -> list[str]:
    """One run as a row of the series' table (`COLUMNS`)."""
    stuck = findings.unprocessed + findings.uncommitted
    numbers = (
        findings.records, findings.workers, findings.lost, stuck, findings.ahead, findings.zombie_writes,
        findings.wrong_keys, findings.late_writes, findings.longest_single_pause_s, findings.longest_pause_s,
    )  # fmt: skip
    return [str(plan.seed), plan.told(), *(f"{number:,}" for number in numbers)]


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m chaos.transport", description=__doc__.split("\n")[0])
    parser.add_argument("--bootstrap", default=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092"))
    parser.add_argument("--series", type=int, default=0, help="so many runs of different shapes, own broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the load")
    parser.add_argument("--rate", type=int, default=800, help="records a second")
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--tables", type=int, default=1, choices=range(3), help="tables of each worker")
    parser.add_argument("--standby", type=int, default=0, help="standby replicas")
    parser.add_argument("--snapshot", type=int, default=0, help="records after which local state is written")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="work per batch")
    parser.add_argument("--decode-ms", type=float, default=0.0, help="recovery time per changelog record")
    parser.add_argument("--lookup-ms", type=float, default=0.0, help="latency of committed-offset look-ups")
    parser.add_argument("--static", action="store_true", help="static membership")
    parser.add_argument("--broker", action="store_true", help="kill the broker, too (a broker of its own)")
    parser.add_argument("--apart", type=float, default=0.0, help="least seconds between two injuries")
    parser.add_argument("--jump", action="store_true", help="also move the fetch position at random")
    parser.add_argument("--stock", action="store_true", help="on Faust's own transport, for comparison")
    parser.add_argument("--unguarded", action="store_true", help="without lease and fence: it must fail")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of text")
    options = parser.parse_args()
    names = {field.name for field in dataclasses.fields(Plan)}
    chosen = {name: value for name, value in vars(options).items() if name in names}
    plan = Plan(**chosen, guarded=not options.unguarded)
    if not (options.series or options.broker):
        return one(plan, None, options.json)
    with own_broker() as (bootstrap, broker):
        plan = dataclasses.replace(plan, bootstrap=bootstrap)
        return series(plan, broker, options.series) if options.series else one(plan, broker, options.json)


if __name__ == "__main__":
    sys.exit(main())
