"""One run: load, faults at their times, all put right again, everything settled, the books judged."""

from __future__ import annotations

import heapq
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import psycopg
from confluent_kafka import KafkaException

from chaos.stack.audit import Finding, audit
from chaos.stack.books import Books
from chaos.stack.disasters import can_back_up, make_backup
from chaos.stack.faults import CanNotNow, Faults, Undo
from chaos.stack.judge_told import PASSING
from chaos.stack.plan import KINDS, PROCESSES, Fault
from chaos.stack.reading import calls_of, read_books, read_links
from chaos.stack.running import WINDOW_MS, Running
from chaos.stack.servers import Servers

STILL_S: Final = 150.0
"""So long nothing may move before what is open is stuck: longer than the longest wait of a job (80 s)."""
UP_S: Final = 240.0
SETTLE_S: Final = 600.0
LATE_EFFECT_S: Final = 3.0
ALERTS_S: Final = 360.0
"""Some alerts are over only when nothing is said of them for 5 minutes (docs/alerts.md)."""

Say = Callable[[str], None]

OPEN: Final = (
    "SELECT (SELECT count(*) FROM event_log WHERE status NOT IN ('done', 'dead'))"
    " + (SELECT count(*) FROM job_queue WHERE status NOT IN ('done', 'failed', 'dead'))"
    " + (SELECT count(*) FROM group_link_dispatch_queue"
    "    WHERE status IN ('pending', 'processing') AND available_at < 'infinity')"
)
"""What has no end yet."""
OPEN_ALERTS: Final = "SELECT count(*) FROM agent_inbox_items WHERE status <> 'resolved' AND kind = ANY (%s)"


@dataclass(slots=True)
class Report:
    """What came of a run."""

    seed: int
    seconds: float
    planned: int
    made: Counter[str] = field(default_factory=Counter)
    """Kind → how often it happened."""
    not_made: list[str] = field(default_factory=list)
    events: int = 0
    jobs: int = 0
    calls: int = 0
    links: int = 0
    settled_s: float = 0.0
    open_left: int = 0
    exits: dict[str, dict[str, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    books: Books = field(default_factory=Books)


def cannot(servers: Servers) -> dict[str, str]:
    """Kinds of faults that this machine can't make, and why."""
    found = {}
    if not servers.broker_disk.made:
        found["broker-disk"] = "no file system may be mounted"
    if not servers.postgres_disk.made:
        found["postgres-disk"] = "no file system may be mounted"
    elif not servers.postgres.data.is_relative_to(servers.postgres_disk.folder):
        found["postgres-disk"] = "Postgres' user can't reach the small disk"
    return found


def run(running: Running, faults: Sequence[Fault], seconds: float, seed: int, say: Say) -> Report:
    """Make the faults while the load runs for `seconds`, wait until all is settled, and judge."""
    report = Report(seed, seconds, len(faults))
    if any(one.kind == "restore" for one in faults):
        if can_back_up(running):
            make_backup(running)
        else:
            report.not_made.append("restore: this Postgres came without pg_basebackup")
            faults = [one for one in faults if one.kind != "restore"]
    maker = Faults(running)
    try:
        _hurt(running, maker, faults, seconds, report, say)
    finally:
        maker.close()
    running.recorder.stop()
    say(f"{len(running.recorder.put)} events were put in; waiting until all is settled")
    _put_right(running)
    _settle(running, report, say)
    report.books = _read(running, report)
    report.findings = audit(report.books)
    if running.hung:
        report.findings.append(Finding("process not ready", len(running.hung), running.hung[:3]))
    report.exits = {name: dict(one.exits) for name, one in running.processes.members.items() if one.exits}
    return report


def _hurt(
    running: Running, maker: Faults, faults: Sequence[Fault], seconds: float, report: Report, say: Say
) -> None:
    """Make each fault at its time and undo it at its end."""
    began = time.monotonic()
    undone: list[tuple[float, int, str, Undo]] = []
    waiting = list(faults)

    def now() -> float:
        return time.monotonic() - began

    def undo_due(until_s: float) -> None:
        while undone and undone[0][0] <= until_s:
            _, number, told, undo = heapq.heappop(undone)
            undo()
            say(f"{now():6.1f} s  {number:3}    over: {told}")

    slipped = 0.0
    while now() < seconds + slipped:
        undo_due(now())
        if waiting and waiting[0].at_s + slipped <= now():
            fault, due = waiting.pop(0), now()
            if KINDS[fault.kind].alone:
                undo_due(float("inf"))
                _put_right(running)
            say(f"{now():6.1f} s  {fault.number:3}  {fault.told()}")
            try:
                undo = maker.make(fault)
            except (CanNotNow, psycopg.Error, KafkaException, TimeoutError) as error:
                report.not_made.append(f"{fault.number} {fault.told()}: {str(error).strip()[:120]}")
                say(f"{now():6.1f} s  {fault.number:3}    not now: {str(error).strip()[:90]}")
                continue
            finally:
                # what took its time, on a busy machine above all, moves all that follows
                slipped = min(slipped + now() - due, seconds)
            report.made[fault.kind] += 1
            if undo is not None:
                heapq.heappush(undone, (now() + fault.seconds, fault.number, fault.told(), undo))
        running.wait(0.1)
    undo_due(float("inf"))


def _put_right(running: Running) -> None:
    """Every server and every process runs again."""
    running.servers.give_back()
    running.processes.start(*PROCESSES)
    if not running.until(running.servers.up, UP_S, every=0.5):
        raise TimeoutError("the servers did not come back")
    for name in running.processes.wait_ready(*PROCESSES, meanwhile=running.servers.keep_up):
        running.hung.append(name)
        running.processes.signal(name, signal.SIGABRT)  # its log tells then where it hung


def _settle(running: Running, report: Report, say: Say) -> None:
    """Wait until every event and job has its end, and alerts of what is over have resolved themselves."""
    began = moved = time.monotonic()
    before = -1
    while time.monotonic() - began < SETTLE_S and time.monotonic() - moved < STILL_S:
        running.wait(1.0)
        try:
            left = running.count(OPEN)
        except psycopg.Error:
            continue
        if left == 0:
            break
        if left != before:
            before, moved = left, time.monotonic()
    report.settled_s = round(time.monotonic() - began, 1)
    running.wait(LATE_EFFECT_S)
    report.open_left = running.count(OPEN)
    say(f"settled after {report.settled_s} s, {report.open_left} left open; alerts may resolve themselves")
    running.until(lambda: running.count(OPEN_ALERTS, sorted(PASSING)) == 0, ALERTS_S, every=1.0)
    running.wait(4.0)  # one round of the alert pass after the last outcome


def _read(running: Running, report: Report) -> Books:
    servers = running.servers
    with servers.connect() as connection:
        books = read_books(
            connection, servers.cluster.bootstrap, running.prefix, running.recorder.put, running.source
        )
        links = read_links(connection, running.recorder.asked, servers.whatsapp)
    books = replace(
        books,
        calls=calls_of(servers.engine.requests()),
        links=links,
        window_ms=WINDOW_MS,
        restored=running.restored,
        faults=dict(report.made),
    )
    report.events, report.jobs = len(books.put), len(books.jobs)
    report.calls, report.links = len(books.calls), len(links)
    return books
