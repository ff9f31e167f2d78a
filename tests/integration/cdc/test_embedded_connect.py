"""The embedded Kafka Connect: its archive of classes, its port, its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from db import roles
from db.migrate import migrate
from ops.cdc.files import worker_environment
from ops.cdc.rest import Connect
from ops.embedded.connect import EmbeddedConnect
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.training import train_connect
from settings import Settings
from tests.integration.cdc.conftest import Cdc, settings_of
from tests.integration.db.conftest import row_of, topics_of
from tests.integration.db.crm import AI, insert_event

pytestmark = pytest.mark.long


def test_a_trained_archive_is_used_a_broken_one_does_no_harm_and_the_port_stays(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    environment = worker_environment(Settings(topic_prefix=prefix), kafka, "postgresql://")
    connect = EmbeddedConnect(tmp_path / "home", lambda: environment)
    archive = train_connect(connect, 256)
    assert archive.stat().st_size > 1 << 20
    assert [each for each in archive.parent.iterdir() if each.name.startswith("training-")] == []
    with connect:
        assert any(str(archive) in part for part in connect.command())
        url = connect.url
        connect.kill()
        assert not connect.answers()
        archive.write_bytes(b"broken")
        connect.start()
        assert connect.url == url
        with Connect(url) as rest:
            assert rest.names() == []
            assert rest.condition("nobody").state == "ABSENT" and rest.position("nobody") is None
    assert connect.pid is None


def test_a_password_stays_in_the_environment_of_kafka_connect(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    secret = "a'b ${env:HOME} \\ é"
    with EmbeddedPostgres(tmp_path / "postgres", durable=False) as server:
        server.ensure_database("crm")
        url = server.url_of("crm")
        migrate(url, crm="ours")
        login = make_conninfo(url, user="debezium_login", password=secret)
        settings = settings_of(prefix, connect_database_url=login)
        with psycopg.connect(url, autocommit=True) as owner:
            roles.apply(owner, ["debezium"], "just_")
            ask_for_password(owner, "debezium_login", secret)
            owner.execute("GRANT just_debezium TO debezium_login")
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(make_conninfo(login, password="wrong"))
            environment = worker_environment(settings, kafka, url)
            with (
                topics_of(kafka, settings) as topics,
                EmbeddedConnect(tmp_path / "connect", lambda: environment) as connect,
                Connect(connect.url) as rest,
            ):
                cdc = Cdc(url, kafka, settings, rest, topics)
                cdc.register()
                event = insert_event(owner)
                assert [row_of(one)["id"] for one in topics.read(AI, 1)] == [event]
                config = rest.config(cdc.dispatch)
                assert config is not None and config["database.password"] == "${env:POSTGRES_PASSWORD}"
                cdc.all.remove()


def ask_for_password(owner: psycopg.Connection[Any], role: str, password: str) -> None:
    """A role that may replicate and is let in with its password alone."""
    owner.execute(
        sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD {}").format(sql.Identifier(role), password)
    )
    row = owner.execute("SHOW hba_file").fetchone()
    assert row is not None
    file = Path(str(row[0]))
    rules = f"host all,replication {role} 127.0.0.1/32 scram-sha-256\n"
    file.write_text(rules + file.read_text())
    owner.execute("SELECT pg_reload_conf()")
