"""One `kill -9` in the middle of a live stream: which events ended in two jobs, and which in none.

Events of many contacts arrive at a steady pace, stamped with the time at which they are sent. After three
quarters the process is killed and started again at once, with the state that it left on disk; events go on
meanwhile. When the last windows are over and nothing more comes, every job record is read back.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient

from bench.backlog import Wrong
from bench.latency import longest_wait_s
from bench.peers.audit import Audit, audit
from bench.peers.feeding import Feed
from bench.peers.measuring import Streaming, collect, ends_of
from bench.peers.program import Command, Program, variables
from bench.processes import NotReady, Process, Usage
from bench.servers import Servers, own_topics
from bench.workload import WINDOW_MS, Workload, records_of
from settings import Settings
from streams import topics

EVENTS = 3_000
CONTACTS = 300
RATE = 150.0
"""Events a second: what the slowest of them still keeps up with."""
KILLED_AFTER = 0.75
"""Share of the events: by then every engine has closed windows, also one that waits two lengths for it."""
QUIET_S = 10.0
"""Nothing new for so long, with the process running: then nothing more comes."""
PATIENCE_S = 180.0
LOOK_S = 1.0


class Victim(Protocol):
    """A process that can be killed."""

    def wait_ready(self) -> float:
        """Wait until it works."""

    def ensure_alive(self) -> None:
        """Raises NotReady when it has ended."""

    def stop(self) -> None:
        """End it."""

    def kill(self) -> None:
        """`kill -9`."""

    def usage(self) -> Usage:
        """What it has used since it was started."""


class Worker(Process):
    """Our worker, to be killed."""

    def wait_ready(self) -> float:
        """As long as the peers are given, which begin with less."""
        try:
            return super().wait_ready()
        except NotReady:
            self.ensure_alive()
            return super().wait_ready()

    def kill(self) -> None:
        """`kill -9`."""
        os.kill(self.pid, signal.SIGKILL)
        self.stop()


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of one kill."""

    name: str
    audit: Audit
    before: int
    """Records in the jobs topic at the kill, ends of transactions too."""
    away_s: float
    """From the kill until the process had its partitions and its state again."""
    peak_mib: float
    """Most memory that it or its successor had resident."""
    pause_s: float | None = None
    """The longest that any window waited beyond its deadline; of ours, whose outcomes tell deadlines."""


def kill_ours(workload: Workload, at: Servers, database_url: str) -> Killed:
    """Kill our worker once. Raises bench.processes.NotReady."""
    with _corner(at) as (settings, home):
        killed = _killed(OURS, workload, settings, lambda: Worker("worker", settings, database_url, home))
        return replace(killed, pause_s=longest_wait_s(at.bootstrap, settings))


def kill_peer(peer: Streaming, workload: Workload, at: Servers, database_url: str) -> Killed:
    """Kill a peer once. Raises bench.peer.Unavailable, bench.processes.NotReady."""
    command = peer.command()
    with _corner(at) as (settings, home):
        told = variables(settings, peer.name, database_url)
        return _killed(peer, workload, settings, lambda: Program(peer.name, command, told, home))


@contextmanager
def _corner(at: Servers) -> Iterator[tuple[Settings, Path]]:
    with (
        own_topics(at, jobs_paused=True) as settings,
        tempfile.TemporaryDirectory(prefix="rajada-peer-") as folder,
    ):
        topics.ensure_topics(at.bootstrap, settings)
        yield settings, Path(folder)


def _killed(peer: Streaming, workload: Workload, settings: Settings, start: Callable[[], Victim]) -> Killed:
    feed, reached = Feed(settings), int(len(workload.events) * KILLED_AFTER)
    running = start()
    try:
        running.wait_ready()
        _send(feed, workload, 0, reached)
        before = _until_begun(peer, settings, running, workload.windows // 10)
        peak_mib = running.usage().peak_mib
        running.kill()
        killed_s = time.monotonic()
        running = start()
        _send(feed, workload, reached, len(workload.events))
        away_s = running.wait_ready() - (time.time() - (time.monotonic() - killed_s))
        if peer is not OURS:
            time.sleep(2 * WINDOW_MS / 1_000 + 1)
            feed.end(time.time_ns() // 1_000_000)
        _until_quiet(peer, settings, running)
        peak_mib = max(peak_mib, running.usage().peak_mib)
        came_out = collect(peer, settings)
    finally:
        running.stop()
    found = audit([one.event_id for one in workload.events], came_out.jobs)
    return Killed(peer.name, found, before, away_s, peak_mib)


def _send(feed: Feed, workload: Workload, first: int, last: int) -> None:
    """Send a part of the events at the pace, each stamped with its moment."""
    due = time.monotonic()
    for one in workload.events[first:last]:
        time.sleep(max(due - time.monotonic(), 0.0))
        due += 1 / RATE
        now = replace(one, at_ms=time.time_ns() // 1_000_000)
        for record in records_of(replace(workload, events=(now,))):
            feed.send_now(record)
    feed.flush()


def _until_begun(peer: Streaming, settings: Settings, running: Victim, wanted: int) -> int:
    """Wait until it has sent so many jobs, at once where it keeps up; returns how many. Raises Wrong.

    A kill before the first job says nothing, and a machine with other work may starve a process that begins.
    """
    admin = AdminClient({"bootstrap.servers": settings.bootstrap()})
    deadline = time.monotonic() + PATIENCE_S
    while (sent := ends_of(peer, settings, admin)[settings.topic(topics.JOBS)]) < wanted:
        running.ensure_alive()
        if time.monotonic() > deadline:
            raise Wrong(f"{peer.name} has sent {sent} of {wanted} jobs after {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)
    return sent


def _until_quiet(peer: Streaming, settings: Settings, running: Victim) -> None:
    """Wait until nothing has come for a while, and something ever came."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap()})
    known, since, begun = -1, time.monotonic(), time.monotonic()
    while time.monotonic() - begun < PATIENCE_S:
        running.ensure_alive()
        number = sum(ends_of(peer, settings, admin).values())
        if number != known:
            known, since = number, time.monotonic()
        if known > 0 and time.monotonic() - since > QUIET_S + WINDOW_MS / 1_000:
            return
        time.sleep(LOOK_S)


def _no_command() -> Command:
    raise AssertionError("our worker is started as benchmarks start it, not as a peer")


OURS = Streaming("ours", _no_command)
