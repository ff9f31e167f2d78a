"""Debezium in the relay's place, for `bench.relay`."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import psycopg

from bench.relay import PER_TRANSACTION, Backlog, fill, read, trickle
from bench.servers import Servers, own_database, own_topics
from bench.trickle import Latency
from ops.cdc.connectors import Connectors
from ops.cdc.files import connectors, worker_environment
from ops.cdc.rest import Connect
from ops.embedded.connect import EmbeddedConnect
from streams import topics

_STOP_S = 30.0


def measure(
    at: Servers, rows: int, pace: float, seconds: float, *, exactly_once: bool
) -> tuple[Backlog, Latency]:
    """Its backlog, then its latency, of connectors that are registered as always."""
    with (
        tempfile.TemporaryDirectory(prefix="rajada-bench-") as home,
        own_database(at.admin_url) as url,
        own_topics(at) as named,
    ):
        settings = named.model_copy(update={"connect_exactly_once": exactly_once})
        topics.ensure_topics(at.bootstrap, settings)
        environment = worker_environment(settings, at.bootstrap, url)
        with (
            EmbeddedConnect(Path(home) / "connect", lambda: environment) as server,
            Connect(server.url) as connect,
        ):
            wanted = connectors(settings, url)
            of = Connectors(wanted, connect, url)
            of.register(at.bootstrap, settings)
            name = wanted[0].name
            connect.stop(name)
            connect.wait_for(name, "STOPPED", _STOP_S)
            with psycopg.connect(url, autocommit=True) as database:
                fill(database, rows)
            cpu_s, began = _cpu_s(server.pid), time.time()
            connect.resume(name)
            records = read(at, settings, rows // PER_TRANSACTION * PER_TRANSACTION)
            ended = max(record.timestamp()[1] for record in records) / 1000
            behind = Backlog(len(records), ended - began, _cpu_s(server.pid) - cpu_s, _peak_mib(server.pid))
            told = trickle(at, settings, url, pace, seconds)
            of.remove()
    return behind, told


def _cpu_s(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int | None) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
