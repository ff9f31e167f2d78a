"""A Postgres that lets nobody in without TLS: every way to it of ours says what is wrong, or gets in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import trustme

from db import roles
from db.migrate import migrate
from db.pool import async_pool, conninfo_for
from db.replication import ensure_publication, ensure_slot
from db.replication_stream import ReplicationStream
from db.urls import url_of
from ops.embedded.ports import HOST
from tests.command_line import run_rajada
from tests.databases import drop_slot
from tests.locked import PASSWORD, LockedPostgres


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedPostgres]:
    with LockedPostgres(tmp_path_factory.mktemp("locked") / "data") as server:
        url = server.ensure_database("crm")
        migrate(url, crm="ours")
        with psycopg.connect(url, autocommit=True) as connection:
            roles.apply(connection)
            ensure_publication(connection, "rajada")
            for role in roles.ROLES:
                connection.execute(f"ALTER ROLE rajada_{role} PASSWORD '{PASSWORD}'".encode())
        server.lock()
        yield server


ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


async def test_pools_and_the_replication_stream_come_in_over_tls_and_verify_the_server(
    locked: LockedPostgres,
) -> None:
    pool = async_pool(locked.url_as("rajada_worker", "crm"), name="worker")
    async with pool, pool.connection() as connection:
        cursor = await connection.execute(ENCRYPTED)
        assert await cursor.fetchone() == (True,)
    relay = locked.url_as("rajada_relay", "crm")
    with psycopg.connect(conninfo_for(relay, "relay-control"), autocommit=True) as control:
        assert control.execute(ENCRYPTED.encode()).fetchone() == (True,)
        ensure_publication(control, "rajada")  # there already: it needs no right for that
        ensure_slot(control, "tls")
        with ReplicationStream(relay, slot="tls", publication="rajada"):
            senders = "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_replication r USING (pid)"
            assert control.execute(senders.encode()).fetchall() == [(True,)]
        drop_slot(control, "tls")


def test_another_database_of_the_same_server_is_reached_with_the_same_certificates(
    locked: LockedPostgres,
) -> None:
    with psycopg.connect(url_of(locked.url_as("rajada_web", "crm"), "postgres")) as connection:
        assert connection.execute(ENCRYPTED.encode()).fetchone() == (True,)


def rajada(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    nowhere = {"PATH": "/usr/bin:/bin", "DATABASE_URL": url, "RAJADA_HOME": f"/nowhere/{uuid4()}"}
    return run_rajada(*arguments, env=nowhere)


def test_a_wrong_authority_a_wrong_name_and_no_tls_are_told_in_words_without_the_password(
    locked: LockedPostgres, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    asked = {
        "certificate verify failed": locked.url_as("rajada_operator", "crm", sslrootcert=str(stranger)),
        "does not match host name": locked.url_as("rajada_operator", "crm", host="localhost", hostaddr=HOST),
        "no encryption": locked.url_as("rajada_operator", "crm", sslmode="disable", sslrootcert=""),
        "does not exist": locked.url_as("rajada_operator", "crm", sslrootcert=str(tmp_path / "none.pem")),
    }
    for number, (words, url) in enumerate(asked.items()):
        found = rajada(url, *(["jobs", "ls"] if number % 2 else ["migrate", "--dry-run"]))
        assert found.returncode == 7, found.stderr
        assert words in found.stderr and "Traceback" not in found.stderr, found.stderr
        assert "sslrootcert" in found.stderr, "what to correct"
        assert PASSWORD not in found.stderr + found.stdout
    assert rajada(locked.url_as("rajada_operator", "crm"), "jobs", "ls").returncode == 0
