"""One round of a peer that lives in Postgres: started on a log that is full, timed, checked, removed.

Its tables stand in a schema of its own, which is dropped afterwards. Time counts from the moment at which it
is ready to the last job row; CPU is its process' and that of the server's processes that work for it, where
they run on this machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from bench.backlog import Result, Wrong
from bench.peers.audit import Made, audit
from bench.peers.drain import TABLES
from bench.peers.program import Program, python_command
from bench.processes import busy_s
from bench.servers import Servers
from bench.workload import WINDOW_MS, Workload

LOOK_S = 0.2
PATIENCE_S = 600.0
_TICKS = os.sysconf("SC_CLK_TCK")
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
_JOBS = "SELECT id::text, events::text[], extract(epoch FROM created_at)::float8 FROM jobs"
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
        "PGAPPNAME": schema,
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
            started_at = program.wait_ready()
            before, machine_before = _used_s(program, connection, schema), busy_s()
            _until_taken(connection, len(workload.events), program)
            after, machine_after = _used_s(program, connection, schema), busy_s()
            peak_mib = program.usage().peak_mib
        finally:
            program.stop()
        rows = connection.execute(_JOBS).fetchall()
        _drop(connection, schema)
    made = [Made(str(job), tuple(events)) for job, events, _ in rows]
    return made, Result(
        name=peer.name,
        events=len(workload.events),
        jobs=len(made),
        seconds=max(at_s for _, _, at_s in rows) - started_at,
        cpu_s=after - before,
        machine_s=machine_after - machine_before,
        peak_mib=peak_mib,
        repeated=0,
    )


def _drop(connection: Connection, schema: str) -> None:
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def _until_taken(connection: Connection, events: int, program: Program) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        (taken,) = connection.execute(_TAKEN).fetchone() or (0,)
        if taken >= events:
            return
        program.ensure_alive()
        if time.monotonic() > deadline:
            raise Wrong(
                f"{taken} of {events} events are in a job after {PATIENCE_S:.0f} s:\n{program.tail()}"
            )
        time.sleep(LOOK_S)


def _used_s(program: Program, connection: Connection, application: str) -> float:
    """CPU seconds of the process and of the server's processes that work for it."""
    used = program.usage().cpu_s
    for (pid,) in connection.execute(_BACKENDS, [application]).fetchall():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:  # another machine's, or just ended
            continue
        used += (int(fields[11]) + int(fields[12])) / _TICKS
    return used
