"""One round of a peer that lives in Postgres: started on a log that is full, timed, checked, removed.

Its tables stand in a schema of its own, which is dropped afterwards. Timed and counted as `bench.commits`
does ours: from the moment at which it is ready until a reader, who looks a few times a second, sees the last
event in a job; CPU is its process', what the server does for it shows in the machine's.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from bench.backlog import Result, Wrong, patience_s
from bench.meter import Meter
from bench.peers.audit import Made, audit
from bench.peers.drain import TABLES
from bench.peers.program import Program, python_command
from bench.servers import Servers
from bench.workload import WINDOW_MS, Workload

LOOK_S = 0.2
_JOBS = "SELECT id::text, events::text[] FROM jobs"
_TAKEN = "SELECT count(*) FROM taken"

Connection = psycopg.Connection[TupleRow]


@dataclass(frozen=True, slots=True)
class Draining:
    """A peer that drains the event log."""

    name: str
    module: str
    package: str


def measure(peer: Draining, workload: Workload, at: Servers, database_url: str) -> Result:
    """One round. Raises Unavailable, bench.backlog.Wrong, bench.processes.NotReady."""
    made, result = measure_and_keep(peer, workload, at, database_url)
    found = audit([one.event_id for one in workload.events], made)
    if not found.faultless:
        raise Wrong(f"{peer.name}: {found}")
    return result


def measure_and_keep(
    peer: Draining, workload: Workload, at: Servers, database_url: str
) -> tuple[list[Made], Result]:
    """One round and the jobs that came out of it, as they are; raises as `measure` but for wrong jobs."""
    command = python_command(peer.module, peer.package)
    schema = f"peer_{peer.name.replace('-', '_')}"
    told = {
        "PEER_DATABASE": database_url,
        "PEER_SCHEMA": schema,
        "PEER_ORGANIZATION": workload.clinic.organization_id,
        "PEER_WINDOW_MS": str(WINDOW_MS),
    }
    with (
        tempfile.TemporaryDirectory(prefix="rajada-peer-") as folder,
        psycopg.connect(
            database_url, autocommit=True, options=f"-c search_path={schema},public"
        ) as connection,
    ):
        _drop(connection, schema)
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(TABLES)
        program = Program(peer.name, command, told, Path(folder))
        try:
            with Meter(at.admin_url, [program]) as meter:
                started_at, before = program.wait_ready(), meter.read()
                _until_taken(connection, len(workload.events), program)
                ended_at, used = time.time(), meter.read().since(before)
        finally:
            program.stop()
        rows = connection.execute(_JOBS).fetchall()
        _drop(connection, schema)
    made = [Made(str(job), tuple(events)) for job, events in rows]
    return made, Result(
        name=peer.name,
        events=len(workload.events),
        jobs=len(made),
        seconds=ended_at - started_at,
        used=used,
    )


def _drop(connection: Connection, schema: str) -> None:
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def _until_taken(connection: Connection, events: int, program: Program) -> None:
    patience = patience_s(events)
    deadline = time.monotonic() + patience
    while True:
        (taken,) = connection.execute(_TAKEN).fetchone() or (0,)
        if taken >= events:
            return
        program.ensure_alive()
        if time.monotonic() > deadline:
            raise Wrong(f"{taken} of {events} events are in a job after {patience:.0f} s:\n{program.tail()}")
        time.sleep(LOOK_S)
