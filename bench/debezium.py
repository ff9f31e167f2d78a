"""Debezium in the relay's place, for `bench.relay`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.latency import Latency
from bench.meter import Meter
from bench.processes import Started
from bench.relay import PER_TRANSACTION, Backlog, fill, read, trickle
from bench.servers import Servers, own_database, own_topics
from ops.cdc.connectors import Connectors
from ops.cdc.files import connectors, worker_environment
from ops.cdc.rest import Connect
from ops.embedded.connect import EmbeddedConnect
from settings import Settings
from streams import topics

_STOP_S = 30.0


@contextmanager
def registered(at: Servers, settings: Settings, url: str) -> Iterator[tuple[Connectors, Connect, int | None]]:
    """A Kafka Connect of its own with our connectors, registered as always; its process id.

    The connectors and their slots are removed afterwards.
    """
    topics.ensure_topics(at.bootstrap, settings)
    environment = worker_environment(settings, at.bootstrap, url)
    with (
        tempfile.TemporaryDirectory(prefix="rajada-bench-") as home,
        EmbeddedConnect(Path(home) / "connect", lambda: environment) as server,
        Connect(server.url) as connect,
    ):
        of = Connectors(connectors(settings, url), connect, url)
        of.register(at.bootstrap, settings)
        try:
            yield of, connect, server.pid
        finally:
            of.remove()


def measure(
    at: Servers, rows: int, pace: float, seconds: float, *, exactly_once: bool
) -> tuple[Backlog, Latency]:
    """Its backlog, then its latency, of connectors that are registered as always."""
    with own_database(at.admin_url) as url, own_topics(at) as named:
        settings = named.model_copy(update={"connect_exactly_once": exactly_once})
        with registered(at, settings, url) as (_, connect, pid):
            name = connectors(settings, url)[0].name
            connect.stop(name)
            connect.wait_for(name, "STOPPED", _STOP_S)
            with psycopg.connect(url, autocommit=True) as database:
                fill(database, rows)
            with Meter(at.admin_url, [Started(pid)]) as meter:
                before, began = meter.read(), time.time()
                connect.resume(name)
                records = read(at, settings, rows // PER_TRANSACTION * PER_TRANSACTION)
                used = meter.read().since(before)
            ended = max(record.timestamp()[1] for record in records) / 1000
            behind = Backlog(len(records), ended - began, used)
            told = trickle(at, settings, url, pace, seconds)
    return behind, told
