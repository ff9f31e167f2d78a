"""One visit of the doctor: every check that can be made, whichever servers are away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from db.replication import Connection
from ops.doctor.engine import engine_findings
from ops.doctor.findings import Check, Finding, examine, fail, skipped
from ops.doctor.group_links import NAMES as GROUP_LINKS
from ops.doctor.group_links import group_link_checks
from ops.doctor.kafka import connect as connect_kafka
from ops.doctor.kafka import kafka_checks
from ops.doctor.machine import machine_findings
from ops.doctor.pipeline import pipeline_checks
from ops.doctor.postgres import connect as connect_postgres
from ops.doctor.postgres import is_prepared, postgres_checks
from ops.doctor.reconciler import NAMES as RECONCILER
from ops.doctor.reconciler import reconciler_checks
from ops.doctor.registry import registry_findings
from ops.doctor.replication import replication_checks
from ops.endpoints import bootstrap_of, database_of
from ops.errors import OpsError
from settings import RajadaError, Settings
from streams.topics import SOURCE

KAFKA: Final = ("topics", "partitions", "replicas", "dead letters", "failover")
POSTGRES: Final = (
    "version",
    "clock",
    "tables",
    "migrations",
    "columns",
    "event log",
    "indexes",
    "connections",
    "rights",
    "other consumers",
)
REPLICATION: Final = ("wal_level", "role", "free slots", "publication", "slot")
ON_OUR_TABLES: Final = frozenset(
    {
        "columns",
        "event log",
        "indexes",
        "rights",
        "other consumers",
        "publication",
        "slot",
        *GROUP_LINKS,
        *RECONCILER,
    }
)
"""Checks of a database that was migrated at least once."""
START_KAFKA: Final = "start it, or correct KAFKA_BOOTSTRAP_SERVERS"
START_POSTGRES: Final = "start it, or correct DATABASE_URL"


def visit(settings: Settings) -> list[Finding]:
    """Look at everything; takes about ten seconds at most for each server that is away. Changes nothing."""
    kafka, bootstrap, why_not = _kafka(settings)
    findings = machine_findings(settings) + registry_findings(settings) + engine_findings(settings) + kafka
    try:
        url = database_of(settings)
        connection = connect_postgres(url)
    except RajadaError as error:
        findings += examine("postgres", {"server": _away(error, START_POSTGRES)})
        findings += skipped("postgres", POSTGRES, "Postgres is away")
        findings += skipped("replication", REPLICATION, "Postgres is away")
        findings += _pipeline(settings, bootstrap, why_not, None)
        findings += skipped("group links", GROUP_LINKS, "Postgres is away")
        return findings + skipped("reconciler", RECONCILER, "Postgres is away")
    with connection:
        ready = is_prepared(connection)
        for area, checks in (
            ("postgres", postgres_checks(connection, url, settings)),
            ("replication", replication_checks(connection, settings)),
        ):
            findings += _examined(area, checks, ready=ready)
        findings += _pipeline(settings, bootstrap, why_not, connection if ready else None)
        findings += _examined("group links", group_link_checks(connection, settings), ready=ready)
        return findings + _examined("reconciler", reconciler_checks(connection, settings), ready=ready)


def _examined(area: str, checks: Mapping[str, Check], *, ready: bool) -> list[Finding]:
    """The checks of a database; without our tables those that need none."""
    made = {name: check for name, check in checks.items() if ready or name not in ON_OUR_TABLES}
    left = [name for name in checks if name not in made]
    return examine(area, made) + skipped(area, left, "our tables are not there yet")


def _kafka(settings: Settings) -> tuple[list[Finding], str, str]:
    """What Kafka is like, where it is, and why nobody can read from it (empty: they can)."""
    try:
        bootstrap = bootstrap_of(settings)
        cluster = connect_kafka(bootstrap)
    except RajadaError as error:
        away = examine("kafka", {"brokers": _away(error, START_KAFKA)})
        return away + skipped("kafka", KAFKA, "Kafka is away"), "", "Kafka is away"
    why_not = "" if settings.topic(SOURCE) in cluster.topics else "the topics are not there yet"
    return examine("kafka", kafka_checks(cluster, bootstrap, settings)), bootstrap, why_not


def _pipeline(
    settings: Settings, bootstrap: str, why_not: str, connection: Connection | None
) -> list[Finding]:
    if why_not:
        return skipped("pipeline", ("worker", "delays", "sink"), why_not)
    findings = examine("pipeline", pipeline_checks(bootstrap, connection, settings))
    if connection is None:
        findings += skipped("pipeline", ("sink",), "Postgres can't tell how far it is")
    return findings


def _away(error: RajadaError, advice: str) -> Check:
    """A server that is not there; an error of ours that names no server tells itself what to do."""
    told = str(error)
    return lambda: fail(told, "" if isinstance(error, OpsError) else advice)
