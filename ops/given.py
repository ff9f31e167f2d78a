"""Servers that are given instead of embedded: are they there, and can Rajada work with them as they are?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_access import kafka_client
from ops.errors import Unreachable

if TYPE_CHECKING:
    from db.fitness import Crm

_KAFKA_TIMEOUT_S = 10.0
_POSTGRES_TIMEOUT_S = 10
_LEAST_POSTGRES = 150_000


def check_kafka(bootstrap: str) -> str:
    """Ask a given Kafka for its brokers; returns what was found, raises Unreachable."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({**kafka_client(bootstrap), "log_level": 0})
    try:
        brokers = len(client.list_topics(timeout=_KAFKA_TIMEOUT_S).brokers)
    except KafkaException as error:
        raise Unreachable(
            f"Kafka does not answer at {bootstrap} ({error.args[0].str()}). Start that Kafka, correct "
            "KAFKA_BOOTSTRAP_SERVERS, or unset it to use the embedded one."
        ) from error
    return f"given, {brokers} broker{'s' if brokers != 1 else ''}"


def check_postgres(url: str) -> str:
    """Ask a given Postgres for its version and WAL level; returns what was found, raises Unreachable."""
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=_POSTGRES_TIMEOUT_S) as connection:
            version = connection.info.server_version
            found = connection.execute("SHOW wal_level").fetchone()
    except psycopg.Error as error:
        raise Unreachable(
            f"Postgres does not answer at {shown(url)} ({str(error).strip()}). {reach(str(error))} Or unset "
            "DATABASE_URL to use the embedded one."
        ) from error
    if version < _LEAST_POSTGRES:
        raise Unreachable(
            f"{shown(url)} is Postgres {version // 10_000}; 15 or newer is needed (publications with row "
            "filters). Upgrade it, or unset DATABASE_URL to use the embedded one."
        )
    level = str(found[0]) if found else "unknown"
    if level != "logical":
        raise Unreachable(
            f"{shown(url)} has wal_level={level}, but changes can be read with wal_level=logical only. Run "
            "ALTER SYSTEM SET wal_level = 'logical' as its superuser and restart that Postgres (a hosted one "
            "has a switch for logical replication instead)."
        )
    return f"given, Postgres {version // 10_000}"


def reach(what: str) -> str:
    """What to do about a Postgres that gave no connection, by its words."""
    if any(word in what for word in ("certificate", "SSL", "no encryption", "host name")):
        return "Correct sslmode and sslrootcert in DATABASE_URL or the server's certificate (docs/access.md)."
    return "Start it, or correct DATABASE_URL."


def whose_tables(url: str) -> Crm:
    """Whether the CRM's tables in a database are the CRM's, or are (to be) made by us.

    Ours: our migrations made them, or the database holds no tables at all. Anything else is an existing CRM,
    to which only our own additions are applied. Raises Unreachable.
    """
    import psycopg

    from db.migrate import FOLDER, pending
    from db.queries import load

    try:
        with psycopg.connect(url, connect_timeout=_POSTGRES_TIMEOUT_S) as connection:
            row = connection.execute(load("tables_present")).fetchone()
    except psycopg.OperationalError as error:
        what = str(error).strip()
        raise Unreachable(f"Postgres does not answer at {shown(url)} ({what}). {reach(what)}") from error
    has_log, has_any = (bool(row[0]), bool(row[1])) if row is not None else (False, False)
    if not has_any:
        return "ours"
    # any of them will do: a later version brings files that were not applied yet
    made_by_us = {file.stem for file in (FOLDER / "crm").glob("*.sql")} - set(pending(url, crm="ours"))
    return "ours" if has_log and made_by_us else "existing"


def shown(url: str) -> str:
    """A database URL as it may be shown: without its password."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "the database of DATABASE_URL"
    who = f"{parts['user']}@" if parts.get("user") else ""
    where = str(parts.get("host") or parts.get("hostaddr") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{who}{where}{port}/{parts.get('dbname') or ''}"
