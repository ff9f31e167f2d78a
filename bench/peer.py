"""What a peer is: another way to do the main path's work, measured in the same rounds as ours.

`bench.peers.PEERS` lists them; a peer's own libraries are imported when it is measured, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.backlog import Result
from bench.servers import Servers
from bench.workload import Workload


class Unavailable(RuntimeError):
    """The peer can't run here; the message says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them."""

    name: str
    """As the tables show it."""
    way: Literal["topic", "commit"]
    """`topic`: works off the source topic and makes a record for every window. `commit`: rows of Postgres
    become job rows without Kafka, as table queues do."""
    work: str
    """What it does of the work, and what it leaves out; a sentence or two for the page."""
    most_events: int
    """Larger workloads are not given to it, and the page says so."""
    version: Callable[[], str]
    """Name and number ("procrastinate 3.5.0"); raises Unavailable."""
    measure: Callable[[Workload, Servers, str], Result]
    """Prepare, start, work off the whole workload, check what came out, stop and clean up: one round.

    Given the workload (its rows are in the database, its events in nobody's topic yet), the servers and the
    database's URL. As with `bench.backlog.measure` and `bench.commits.measure`: time counts from the moment
    at which the process is ready; what is used is read by `bench.meter` from then until the last is there.
    Leaves topics, tables and processes as it found them. Raises Unavailable, bench.backlog.Wrong,
    bench.processes.NotReady; what else it raises is told too, and the other lines go on.
    """
