"""Where the tests' Kafka and Postgres come from: given ones, containers, or the embedded stack.

Given ones (`KAFKA_BOOTSTRAP_SERVERS`; `DATABASE_URL`, a superuser's, with wal_level=logical) win; containers
are taken where a Docker engine answers, unless `RAJADA_TEST_CONTAINERS=0`; else the embedded servers start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Literal

Source = Literal["given", "container", "embedded"]

KAFKA_IMAGE: Final = "confluentinc/cp-kafka:8.1.0"
POSTGRES_IMAGE: Final = "postgres:17.6"
POSTGRES_OPTIONS: Final = {"max_replication_slots": "60", "max_wal_senders": "60", "max_connections": "300"}
"""Tests run many replication slots and connections side by side."""


@cache
def docker_answers() -> bool:
    """Whether a Docker engine is there and lets us in."""
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=3)
        try:
            return bool(client.ping())
        finally:
            client.close()
    except (DockerException, OSError):
        return False


def source_of(given: str | None) -> Source:
    """Where a server comes from, with what its variable in the environment says."""
    if given:
        return "given"
    wanted = os.environ.get("RAJADA_TEST_CONTAINERS", "1") != "0"
    return "container" if wanted and docker_answers() else "embedded"


@contextmanager
def kafka_server(folder: Path) -> Iterator[str]:
    """bootstrap.servers of a real Kafka; an embedded one keeps its data in `folder`."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    match source_of(given):
        case "given":
            assert given is not None
            yield given
        case "container":
            from testcontainers.community.kafka import KafkaContainer

            with KafkaContainer(KAFKA_IMAGE).with_kraft() as container:
                yield container.get_bootstrap_server()
        case "embedded":
            from ops.embedded.kafka import EmbeddedKafka

            with EmbeddedKafka(folder) as server:
                yield server.bootstrap


@contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """URL of a superuser on a real Postgres; an embedded one keeps its data in `folder`."""
    given = os.environ.get("DATABASE_URL")
    match source_of(given):
        case "given":
            assert given is not None
            yield given
        case "container":
            from testcontainers.community.postgres import PostgresContainer

            options = {"wal_level": "logical", "fsync": "off", **POSTGRES_OPTIONS}
            command = " ".join(["postgres", *(f"-c {name}={value}" for name, value in options.items())])
            with PostgresContainer(POSTGRES_IMAGE, driver=None).with_command(command) as container:
                yield container.get_connection_url(driver=None)
        case "embedded":
            from ops.embedded.postgres import EmbeddedPostgres

            # nobody needs the data of tests after a power failure
            with EmbeddedPostgres(folder, durable=False, options=POSTGRES_OPTIONS) as server:
                yield server.url
