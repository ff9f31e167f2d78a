"""The doctor on a real Kafka and a real Postgres: in health, with each trouble, and with servers away."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from db.migrate import migrate
from db.queries import load
from db.replication import Connection, drop, ensure_publication, ensure_slot
from db.sealing import Seals, new_key
from ops.clinic import Clinic, Message
from ops.doctor.findings import FAILED, Finding, exit_code
from ops.doctor.visit import visit
from ops.embedded.postgres import EmbeddedPostgres
from ops.engine.serving import EngineBeside
from ops.whatsapp.serving import WhatsAppBeside
from settings import Settings
from streams import topics
from streams.reconcile.ledger import SCHEDULE
from tests.command_line import run_rajada
from tests.e2e.waiting import until

NOBODY = "127.0.0.1:9"
AI = "ai_agent.dispatch_requested"


@pytest.fixture
def settings(kafka: str, database: str, prefix: str, engine: EngineBeside) -> Settings:
    """An installation with its topics, before its first start."""
    name = f"doctor_{prefix.rstrip('.')}"
    made = Settings(
        kafka_bootstrap_servers=kafka,
        database_url=database,
        topic_prefix=prefix,
        slot=name,
        publication=name,
        agent_engine_url=engine.url,
    )
    topics.ensure_topics(kafka, made)
    return made


@pytest.fixture
def crm(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def replicated(settings: Settings, crm: Connection) -> Settings:
    """The same after the relay's first start."""
    ensure_publication(crm, settings.publication)
    ensure_slot(crm, settings.slot)
    crm.execute("INSERT INTO rajada.relay (slot) VALUES (%s)", [settings.slot])
    return settings


def found(settings: Settings) -> dict[str, list[Finding]]:
    """The findings by check."""
    by_check: dict[str, list[Finding]] = {}
    for finding in visit(settings):
        by_check.setdefault(finding.check, []).append(finding)
    return by_check


def levels(settings: Settings) -> dict[str, str]:
    """The checks that are not well, each with its worst level."""
    worst = {check: {one.level for one in findings} for check, findings in found(settings).items()}
    order = ("fail", "warn", "skip")
    return {
        check: next(one for one in order if one in all_) for check, all_ in worst.items() if all_ != {"ok"}
    }


def test_before_the_first_start_nothing_fails_and_what_is_to_come_is_told(settings: Settings) -> None:
    assert levels(settings) == {
        "publication": "warn", "slot": "warn", "worker": "warn", "delays": "warn", "sink": "warn",
        "schedule": "warn",
    }  # fmt: skip
    assert exit_code(visit(settings)) == 0


def test_a_prepared_installation_lacks_its_processes_alone(replicated: Settings) -> None:
    assert levels(replicated) == dict.fromkeys(("slot", "worker", "delays", "sink", "schedule"), "warn")
    checks = found(replicated)
    assert "nobody reads" in checks["slot"][0].found
    assert "filter on event_type and status" in checks["publication"][0].found
    assert checks["brokers"][0].found.startswith("Kafka ")
    assert "unknown" not in checks["brokers"][0].found


def test_many_dead_letters_are_told(settings: Settings, kafka: str) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(4):
        producer.produce(settings.topic(topics.DEAD), key=b"k", value=b"x", partition=number % 3)
    assert producer.flush(10) == 0
    (counted,) = found(settings)["dead letters"]
    assert counted.level == "ok" and f"4 letters in {settings.topic(topics.DEAD)}" in counted.found
    (alarm,) = found(settings.model_copy(update={"dead_alarm_records": 3}))["dead letters"]
    assert alarm.level == "warn" and "holds 4 letters" in alarm.found


def test_a_slot_that_is_gone_is_a_failure(replicated: Settings, crm: Connection) -> None:
    drop(crm, slot=replicated.slot)
    assert levels(replicated)["slot"] == "fail"


def test_migrations_that_are_not_applied_are_named(settings: Settings, crm: Connection) -> None:
    crm.execute("DELETE FROM rajada._yoyo_migration WHERE migration_id = 'rajada-0005-indexes'")
    (finding,) = found(settings)["migrations"]
    assert finding.level == "fail" and "1 not applied: rajada-0005-indexes" in finding.found


@pytest.mark.parametrize(
    ("index", "told"), [("messages_conversation", "conversation_id"), ("messages_contact", "contact_id")]
)
def test_a_crm_without_the_index_that_decisions_need_is_told_what_to_make(
    settings: Settings, crm: Connection, index: str, told: str
) -> None:
    clinic = Clinic.found(crm)
    for patient in clinic.register(crm, [f"p{number}" for number in range(100)]):
        clinic.write(crm, [Message(patient)] * 20)
    crm.execute("ANALYZE")
    (well,) = found(settings)["indexes"]
    assert well.level == "ok" and "messages" in well.found
    crm.execute("DROP INDEX messages_media")  # it would serve instead
    crm.execute(f"DROP INDEX {index}".encode())
    (lacks,) = found(settings)["indexes"]
    assert lacks.level == "warn" and f"too much of messages: no index on {told}" in lacks.found
    crm.execute(lacks.advice.encode())
    crm.execute("ANALYZE")
    (mended,) = found(settings)["indexes"]
    assert mended.level == "ok"


def test_a_server_without_connections_left_is_up_and_says_so(tmp_path: Path, kafka: str, prefix: str) -> None:
    options = {"max_connections": "8", "superuser_reserved_connections": "0", "max_wal_senders": "0"}
    with EmbeddedPostgres(tmp_path / "full", durable=False, options=options) as server:
        settings = Settings(kafka_bootstrap_servers=kafka, database_url=server.url, topic_prefix=prefix)
        with contextlib.ExitStack() as others:
            with contextlib.suppress(psycopg.OperationalError):
                while True:
                    others.enter_context(psycopg.connect(server.url))
            (server_check,) = found(settings)["server"]
            assert server_check.level == "fail" and "is up, but has no connection left" in server_check.found
            assert "max_connections" in server_check.found
        (few,) = found(settings)["connections"]
        assert few.level == "warn" and "of 8 are used" in few.found


def test_what_somebody_dropped_is_told_though_every_migration_is_applied(
    settings: Settings, crm: Connection
) -> None:
    crm.execute("DROP INDEX rajada_event_log_open")
    crm.execute("DROP TRIGGER zz_rajada_partition_key ON event_log")
    (columns,) = found(settings)["columns"]
    assert columns.level == "fail"
    assert "rajada_event_log_open" in columns.found and "zz_rajada_partition_key" in columns.found
    assert levels(settings)["event log"] == "warn"


def test_a_disabled_trigger_and_a_log_without_identity_are_told(settings: Settings, crm: Connection) -> None:
    crm.execute("ALTER TABLE event_log DISABLE TRIGGER zz_rajada_partition_key")
    crm.execute("ALTER TABLE event_log REPLICA IDENTITY NOTHING")
    told = [finding.found for finding in found(settings)["event log"] if finding.level == "warn"]
    assert len(told) == 2 and "switched off" in told[0] and "replica identity" in told[1]


def test_an_empty_database_says_so_once(settings: Settings, crm: Connection, database: str) -> None:
    crm.execute("DROP SCHEMA public, rajada CASCADE")
    crm.execute("CREATE SCHEMA public")
    assert levels(settings) == {
        "tables": "fail", "migrations": "fail", "columns": "skip", "event log": "skip",
        "indexes": "skip", "rights": "skip", "other consumers": "skip", "publication": "skip", "slot": "skip",
        "worker": "warn", "delays": "warn", "sink": "skip",
        "http api": "skip", "tokens": "skip", "whatsapp": "skip", "sealed tokens": "skip",
        "held links": "skip", "schema connect": "skip", "schedule": "skip",
    }  # fmt: skip
    migrate(database, crm="ours")
    assert "fail" not in levels(settings).values()


def test_another_consumer_at_work_is_a_failure_and_the_crms_workers_only_beside_lanes(
    settings: Settings, crm: Connection
) -> None:
    organization = "11111111-1111-4111-8111-111111111111"
    crm.execute("INSERT INTO organizations (id) VALUES (%s)", [organization])
    crm.execute(
        "INSERT INTO job_queue (organization_id, kind, status, locked_by, locked_at)"
        " VALUES (%s, 'inbound_turn', 'running', 'crm-7', now())", [organization],
    )  # fmt: skip
    (finding,) = found(settings)["other consumers"]
    assert finding.level == "fail" and "1 job `running` by crm-7" in finding.found
    by_table = settings.model_copy(update={"jobs_run_by": "table"})
    assert "other consumers" not in levels(by_table)
    crm.execute(
        "INSERT INTO event_log (organization_id, event_type, status, consumed_by)"
        " VALUES (%s, %s, 'processing', '{old-drain}')", [organization, AI],
    )  # fmt: skip
    (finding,) = found(by_table)["other consumers"]
    assert finding.level == "fail" and "1 event `processing` by old-drain" in finding.found
    assert "cut-over.md" in finding.advice


def test_topics_that_drifted_are_told(settings: Settings, kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    change = ConfigResource(
        ResourceType.TOPIC,
        settings.topic(topics.OUTCOMES),
        incremental_configs=[
            ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([change])[change].result(10)
    dead = settings.topic(topics.DEAD)
    admin.delete_topics([dead])[dead].result(10)
    until(lambda: dead not in admin.list_topics(timeout=5).topics)
    by_level = {finding.level: finding.found for finding in found(settings)["topics"]}
    assert f"missing: {dead}" in by_level["fail"]
    assert "retention.ms is 1000, wanted 1209600000" in by_level["warn"]
    admin.create_topics([NewTopic(dead, 3, 1)])[dead].result(10)
    until(lambda: dead in admin.list_topics(timeout=5).topics)
    graver = [finding for finding in found(settings)["topics"] if finding.level == "fail"]
    assert any("partitions is 3, wanted 8" in finding.found for finding in graver)


def test_a_setting_that_lies_about_the_partitions_is_told(settings: Settings) -> None:
    (finding,) = found(settings.model_copy(update={"partitions": 24}))["partitions"]
    assert finding.level == "warn" and "RAJADA_PARTITIONS=8" in finding.advice


def test_a_role_that_may_not_replicate_is_told(settings: Settings, crm: Connection, prefix: str) -> None:
    name = f"weak_{prefix.rstrip('.')}"
    crm.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    try:
        crm.execute(f"GRANT USAGE ON SCHEMA rajada TO {name}")
        crm.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public, rajada TO {name}")
        assert settings.database_url is not None
        weak = make_conninfo(**{**conninfo_to_dict(settings.database_url), "user": name, "password": "x"})
        told = levels(settings.model_copy(update={"database_url": weak}))
        assert told["role"] == "fail"
        assert told["publication"] == "fail", "it can't make it either"
    finally:
        crm.execute(f"DROP OWNED BY {name}")
        crm.execute(f"DROP ROLE {name}")


def test_enum_columns_are_named_as_what_the_relay_filters_itself(
    replicated: Settings, crm: Connection
) -> None:
    drop(crm, publication=replicated.publication)
    crm.execute("CREATE TYPE kind AS ENUM ('ai_agent.dispatch_requested', 'group_link.dispatch_requested')")
    crm.execute("DROP INDEX event_log_due")
    crm.execute("ALTER TABLE event_log ALTER event_type TYPE kind USING event_type::kind")
    ensure_publication(crm, replicated.publication)
    (finding,) = found(replicated)["publication"]
    assert finding.level == "ok" and "event_type can't be in its filter" in finding.found


# -- servers that are away or wrong


def test_kafka_away_leaves_the_rest_checked(replicated: Settings) -> None:
    told = levels(replicated.model_copy(update={"kafka_bootstrap_servers": NOBODY}))
    assert told == {
        "brokers": "fail", "topics": "skip", "partitions": "skip", "replicas": "skip", "dead letters": "skip",
        "failover": "skip", "slot": "warn", "worker": "skip", "delays": "skip", "sink": "skip",
        "schedule": "warn",
    }  # fmt: skip


def test_postgres_away_leaves_the_rest_checked(settings: Settings) -> None:
    told = levels(settings.model_copy(update={"database_url": f"postgresql://nobody@{NOBODY}/none"}))
    assert told.pop("server") == "fail"
    assert told.pop("worker") == told.pop("delays") == "warn"
    assert set(told.values()) == {"skip"} and "topics" not in told


def test_a_server_that_does_not_decode_its_log_is_told(tmp_path: Path, settings: Settings) -> None:
    with EmbeddedPostgres(tmp_path / "postgres", durable=False, options={"wal_level": "replica"}) as server:
        migrate(server.url, crm="ours")
        told = found(settings.model_copy(update={"database_url": server.url}))
    (finding,) = told["wal_level"]
    assert finding.level == "fail" and finding.found == "wal_level is replica"
    assert "ALTER SYSTEM" in finding.advice


# -- group links and the reconciler


def test_group_links_are_looked_at_where_somebody_may_ask_for_them(
    settings: Settings, crm: Connection, whatsapp: WhatsAppBeside
) -> None:
    names = ("http api", "tokens", "whatsapp", "sealed tokens", "held links")
    checks = found(settings)
    assert {checks[name][0].level for name in names} == {"ok"} and "rajada tokens add" in checks["tokens"][
        0
    ].found
    organization_id, key = uuid4(), new_key()
    crm.execute("INSERT INTO organizations (id, name, status) VALUES (%s, 's', 'active')", [organization_id])
    values = {"id": "0123456789abcdef", "organization_id": organization_id, "name": "", "made_by": None}
    crm.execute(load("tokens_add"), {**values, "secret_sha256": b"0" * 32})
    told = levels(settings)
    assert {name: told.get(name, "ok") for name in names} == {
        "http api": "warn", "tokens": "warn", "whatsapp": "warn", "sealed tokens": "ok", "held links": "ok",
    }  # fmt: skip
    number = {"organization_id": organization_id, "phone_number_id": "2077", "set_by": None}
    crm.execute(load("whatsapp_number_set"), {**number, "access_token": Seals([key]).seal("stand-in-token")})
    here = {"whatsapp_url": whatsapp.url, "whatsapp_phone_number_id": "1055"}
    well = settings.model_copy(update={**here, "secret_keys": SecretStr(key)})
    assert levels(well).keys() & {"tokens", "whatsapp", "sealed tokens"} == set()
    shut = settings.model_copy(update=here)
    assert levels(shut)["sealed tokens"] == "fail"
    asked = [one.found for one in found(well)["whatsapp"]]
    assert asked == ["the provider knows number 2077 and its token"] and whatsapp.messages() == []


def test_the_reconcilers_schedule_and_schema_are_looked_at(settings: Settings, crm: Connection) -> None:
    crm.execute("INSERT INTO connect.schedules (name, looked_at) VALUES (%s, now())", [SCHEDULE])
    assert found(settings)["schedule"][0].level == "ok"
    wrong = settings.model_copy(update={"reconcile_cron": "every now and then"})
    (finding,) = found(wrong)["schedule"]
    assert finding.level == "fail" and "RAJADA_RECONCILE_CRON" in finding.advice
    crm.execute("DROP SCHEMA connect CASCADE")
    gone = found(settings)
    assert gone["schema connect"][0].level == gone["schedule"][0].level == "fail"
    assert "rajada migrate" in gone["schema connect"][0].advice


# -- the command


def rajada_doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_rajada("doctor", *arguments, env={**os.environ, **environment})


def test_the_command_tells_people_and_programs_and_ends_with_10_on_failures(
    replicated: Settings, crm: Connection
) -> None:
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": str(replicated.kafka_bootstrap_servers),
        "DATABASE_URL": str(replicated.database_url),
        "RAJADA_TOPIC_PREFIX": replicated.topic_prefix,
        "RAJADA_SLOT": replicated.slot,
        "RAJADA_PUBLICATION": replicated.publication,
        "COLUMNS": "200",
    }
    told = rajada_doctor("--json", **environment)
    report = json.loads(told.stdout)
    assert told.returncode == report["exit_code"] == 0, told.stdout
    assert {"area", "check", "level", "found", "advice"} == set(report["checks"][0])
    drop(crm, slot=replicated.slot)
    told = rajada_doctor(**environment)
    assert told.returncode == FAILED
    assert "is gone" in told.stdout and "1 failure" in told.stdout
    assert told.stderr == ""
