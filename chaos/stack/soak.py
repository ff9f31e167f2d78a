"""Run the whole native stack for long under a steady load, and record memory and lag.

    python -m chaos.stack.soak --minutes 60 --rate 500 --out soak

In the folder `--out` are then `samples.jsonl` (a line every few seconds, written at once: an end by force
loses nothing), `summary.json`, and `curves.png` if matplotlib is installed. Ctrl-C ends it early, and sums up
what there is. A second run into the same folder sets the samples of the first aside.
Exit status 1: a curve is not flat, an event has no end, or one is in two jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson
import psycopg
import structlog
from confluent_kafka import KafkaException
from rich.console import Console
from rich.table import Table

from chaos.stack.curves import Curve, Sample, curves
from chaos.stack.disasters import sink_lag, source_lag
from chaos.stack.recorder import BURSTS
from chaos.stack.running import Running, room_for, under_load
from chaos.stack.servers import Servers, serving
from ops.embedded.kafka_cluster import SIZE
from settings import Settings

SETTLE_S: Final = 300.0
OPEN_EVENTS: Final = "SELECT count(*) FROM event_log WHERE status IN ('pending', 'processing')"
OPEN_JOBS: Final = "SELECT count(*) FROM job_queue WHERE status IN ('pending', 'running')"
IN_TWO_JOBS: Final = """
    SELECT count(*) - count(DISTINCT e)
    FROM job_queue j, jsonb_array_elements_text(j.payload -> 'event_ids') e
    WHERE NOT EXISTS (
        SELECT FROM rajada.trace t
        WHERE t.job_id = j.id AND (t.outcome LIKE 'merged:%' OR t.outcome LIKE 'covered_by:%')
    )
"""
IN_NONE: Final = """
    SELECT count(*) FROM event_log e
    WHERE e.outcome = 'job' AND e.event_type = 'ai_agent.dispatch_requested'
      AND NOT EXISTS (SELECT FROM job_queue j WHERE j.id = e.job_id)
"""


def main() -> int:
    """Command line; returns the exit status."""
    options = _options()
    console = Console(highlight=False)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # clients that die are what this is about
    options.out.mkdir(parents=True, exist_ok=True)
    lines = _fresh(options.out / "samples.jsonl")
    folder = room_for(Path(tempfile.mkdtemp(prefix="rajada-soak-", dir=options.dir)))
    samples: list[Sample] = []
    try:
        with (
            serving(folder, small_disks=False, brokers=options.brokers) as servers,
            under_load(servers, rate=options.rate, contacts=options.contacts, seed=options.seed,
                       remember=False, bursts=options.bursts, settings=undisturbed(servers)) as running,
        ):  # fmt: skip
            console.print(f"{options.rate:.0f} events/s for {options.minutes:.0f} min, samples in {lines}")
            with contextlib.suppress(KeyboardInterrupt):
                watch(running, options.minutes * 60, options.every, lines, samples, console)
            wrong = settle(running, console)
            exits = {name: dict(one.exits) for name, one in running.processes.members.items() if one.exits}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = curves(samples)
    told = {
        "rate": options.rate, "contacts": options.contacts, "minutes": round(samples[-1].at_s / 60, 1),
        "written": samples[-1].written, "wrong": wrong, "exits": exits,
        "curves": [dataclasses.asdict(one) for one in found],
    }  # fmt: skip
    (options.out / "summary.json").write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))
    show(found, wrong, exits, console)
    draw(samples, options.out / "curves.png", console)
    return 1 if wrong or not all(one.flat for one in found) else 0


def undisturbed(servers: Servers) -> dict[str, str]:
    """Settings of a run in which nothing is hurt: straight to the servers, and rounds as often as they are by
    default."""
    default = Settings()
    return {
        "DATABASE_URL": servers.database_url,
        "AGENT_ENGINE_URL": servers.engine.url,
        "RAJADA_SWEEP_EVERY_S": str(default.sweep_every_s),
        "RAJADA_ALERTS_EVERY_S": str(default.alerts_every_s),
        "EVENT_REAP_MS": str(default.event_reap_ms),
    }


def watch(
    running: Running, seconds: float, every_s: float, lines: Path, samples: list[Sample], console: Console
) -> None:
    """Take samples until the time is over."""
    began, said = time.monotonic(), 0.0
    with lines.open("ab", buffering=0) as file:
        while (at_s := time.monotonic() - began) < seconds:
            sample = look(running, at_s)
            samples.append(sample)
            file.write(orjson.dumps(sample) + b"\n")
            if at_s >= said:
                lag = ", ".join(f"{name} {count}" for name, count in sample.lag.items())
                memory = sum(size for name, size in sample.mib.items() if not name.startswith("broker"))
                console.print(
                    f"{at_s / 60:5.1f} min  {sample.written:>9,} events  {memory:6.0f} MiB  {lag}"
                    f"  load {sample.load:.1f}"
                )
                said = at_s + 60
            running.wait(every_s)


def look(running: Running, at_s: float) -> Sample:
    """One sample; what can't be asked at this moment is left out."""
    mib: dict[str, float] = {}
    for name, member in running.processes.members.items():
        if member.process is not None:
            mib[name] = own_mib([member.process.pid])
    for node in running.servers.cluster.nodes:
        if node.pid is not None:
            mib[f"broker {node.number}"] = own_mib([node.pid])
    if running.servers.postgres.pid is not None:
        mib["postgres"] = own_mib(family(running.servers.postgres.pid))
    lag: dict[str, int] = {}
    with contextlib.suppress(psycopg.Error, KafkaException):
        lag = {
            "source": source_lag(running),
            "sink": sink_lag(running),
            "events": running.count(OPEN_EVENTS),
            "jobs": running.count(OPEN_JOBS),
        }
    found = {name: round(size, 1) for name, size in mib.items() if size}
    return Sample(round(at_s, 1), running.recorder.written, found, lag, round(os.getloadavg()[0], 2))


def settle(running: Running, console: Console) -> dict[str, int]:
    """Stop the load, wait until nothing is open, and count what is wrong."""
    running.recorder.stop()
    console.print("the load is over; waiting for the rest")
    running.until(lambda: running.count(OPEN_EVENTS) + running.count(OPEN_JOBS) == 0, SETTLE_S, every=1.0)
    counts = {
        "events written and not in the log": running.recorder.written
        - running.count("SELECT count(*) FROM event_log WHERE event_type = 'ai_agent.dispatch_requested'"),
        "events without end": running.count(OPEN_EVENTS),
        "jobs without end": running.count(OPEN_JOBS),
        "events in two jobs": running.count(IN_TWO_JOBS),
        "events whose job has no row": running.count(IN_NONE),
    }
    return {name: count for name, count in counts.items() if count}


def show(
    found: Sequence[Curve], wrong: dict[str, int], exits: dict[str, dict[str, int]], console: Console
) -> None:
    """Print the curves in numbers."""
    table = Table(title="Memory (PSS, MiB) and lag (records)", title_justify="left")
    table.add_column("")
    for name in ("after the warm-up", "at the end", "most", "per hour", ""):
        table.add_column(name, justify="right")
    for one in found:
        flat = "flat" if one.flat else "[red]GROWS[/]"
        table.add_row(
            one.name,
            f"{one.first:,.0f}",
            f"{one.last:,.0f}",
            f"{one.most:,.0f}",
            f"{one.per_hour:+,.1f}",
            flat,
        )
    console.print(table)
    for name, count in wrong.items():
        console.print(f"[red]{name}: {count:,}[/]")
    for name, ends in exits.items():
        console.print(f"{name} ended: {ends}")


def draw(samples: Sequence[Sample], file: Path, console: Console) -> None:
    """Draw the curves, if matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        console.print("no picture: matplotlib is not installed")
        return
    matplotlib.use("svg" if file.suffix == ".svg" else "agg")
    from matplotlib import pyplot

    figure, (memory, lag) = pyplot.subplots(2, 1, sharex=True, figsize=(10, 8))
    for name in sorted({name for one in samples for name in one.mib}):
        points = [(one.at_s / 60, one.mib[name]) for one in samples if name in one.mib]
        memory.plot(*zip(*points, strict=True), label=name)
    for name in sorted({name for one in samples for name in one.lag}):
        behind = [(one.at_s / 60, one.lag[name]) for one in samples if name in one.lag]
        lag.plot(*zip(*behind, strict=True), label=name)
    memory.set_ylabel("MiB (PSS)")
    lag.set_ylabel("records that wait")
    lag.set_xlabel("minutes")
    for axes in (memory, lag):
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left", fontsize="small", ncols=3)
    figure.tight_layout()
    figure.savefig(file)
    console.print(f"drawn: {file}")


def family(pid: int) -> list[int]:
    """A process and its children (Linux)."""
    with contextlib.suppress(OSError):
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return [pid]


def own_mib(pids: Sequence[int]) -> float:
    """Memory of processes, what they share counted once (PSS), MiB; 0 where nobody tells."""
    kib = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kib += int(line.split()[1])
    return kib / 1024


def _fresh(file: Path) -> Path:
    """A file to write to; one of an earlier run is set aside."""
    if file.exists():
        file.rename(file.with_name(f"samples-{int(file.stat().st_mtime)}.jsonl"))
    return file


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.stack.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=500.0, help="events a second")
    parser.add_argument("--contacts", type=int, default=5_000)
    parser.add_argument(
        "--bursts", type=lambda given: tuple(map(int, given.split(","))), default=BURSTS,
        help="how many messages a contact writes in one go, each as often as it stands here: 1,1,2,3,4",
    )  # fmt: skip
    parser.add_argument("--brokers", type=int, default=SIZE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--out", type=Path, default=Path("soak"), help="where samples and summary go")
    parser.add_argument("--dir", type=Path, help="where the servers' data lie meanwhile")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
