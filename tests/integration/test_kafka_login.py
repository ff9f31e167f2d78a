"""A Kafka that asks for a login over TLS: the transport and every other client get in, by the settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import orjson
import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.workers import ROOT
from kafka_access import kafka_client
from ops import kafka_acls, kafka_roles
from settings import Settings
from streams.topics import ensure_topics
from tests.locked import ADMIN, MECHANISM, PASSWORD, LockedKafka

from .transport_lab import until


def settings_of(locked: LockedKafka, **more: object) -> Settings:
    """As a user's variables would be read."""
    login = {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": MECHANISM,
             "kafka_sasl_username": ADMIN, "kafka_sasl_password": PASSWORD, "kafka_ssl_ca": locked.ca,
             **more}  # fmt: skip
    return Settings(_env_file=None, kafka_bootstrap_servers=locked.bootstrap, **login)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedKafka]:
    server = LockedKafka(tmp_path_factory.mktemp("locked") / "data")
    server.authority = trustme.CA()
    with server:
        yield server


def test_topics_are_made_and_a_wrong_password_is_refused(locked, prefix, monkeypatch):
    settings = settings_of(locked, topic_prefix=prefix, partitions=2)
    monkeypatch.setattr("kafka_access.get_settings", lambda: settings)
    assert f"{prefix}dispatch.jobs" in ensure_topics(locked.bootstrap, settings)
    wrong = settings_of(locked, kafka_sasl_password="wrong")
    client = AdminClient({**kafka_client(locked.bootstrap, wrong), "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)


def test_access_lists_are_taken_where_there_is_an_authorizer_and_refused_in_words_elsewhere(
    locked, kafka, prefix, monkeypatch
):
    settings = settings_of(locked, topic_prefix=prefix)
    monkeypatch.setattr("kafka_access.get_settings", lambda: settings)
    entries = kafka_roles.entries("web", "User:rajada-web", settings)
    kafka_acls.apply(locked.bootstrap, entries)
    kafka_acls.apply(locked.bootstrap, entries)  # what is there already is no hindrance
    with pytest.raises(kafka_acls.AclsRefused, match="authorizer"):
        kafka_acls.apply(kafka, entries)


def test_a_worker_reads_and_writes_with_both_of_its_clients(locked, prefix, tmp_path):
    name = f"{prefix}views"
    (tmp_path / "login.py").write_text(APP)
    access = kafka_client(locked.bootstrap, settings_of(locked))
    admin = AdminClient(access)
    for future in admin.create_topics([NewTopic(f"{name}.{one}", 2, 1) for one in ("in", "out")]).values():
        future.result(20)
    producer = Producer(access)
    producer.produce(f"{name}.in", b"x", b"k")
    producer.flush()
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "faust", "-A", "login", "worker", "--without-web"],
            cwd=tmp_path, env={**os.environ, **locked.access(ADMIN), "APP_ID": name, "PYTHONPATH": str(ROOT)},
            stdout=log, stderr=log,
        )  # fmt: skip
    reader = Consumer({**access, "group.id": name + "-r", "auto.offset.reset": "earliest"})
    reader.subscribe([f"{name}.out"])
    try:
        got = []
        until(lambda: got.extend(reader.consume(1, 0.5)) or got, 40, (tmp_path / "log").read_text()[-1500:])
        assert orjson.loads(got[0].value()) == {"n": 1}
    finally:
        reader.close()
        worker.terminate()
        assert worker.wait(15) == 0


APP = """
import os
import faust
from kafka_access import kafka_security
from settings import get_settings
from streams.transport import Batched, Table, create_table, credentials, each_batch

settings = get_settings()
app = faust.App(
    os.environ["APP_ID"], broker=f"batched://{settings.bootstrap()}", store="batchmem://", Table=Table,
    broker_credentials=credentials(kafka_security(settings, settings.bootstrap())), topic_partitions=2,
    topic_disable_leader=True, consumer_auto_offset_reset="earliest",
)
counts = create_table(app, "counts", partitions=2, encode=lambda n: b"%d" % n, decode=int)

@app.agent(app.topic(f"{app.conf.id}.in", schema=Batched(), partitions=2))
async def count(stream):
    async def work(records, partition):
        for record in records:
            counts.put(record.key, (counts.get(record.key, partition) or 0) + 1, partition)
        await counts.flush()
        await app.consumer.fence()
        told = [(r.key, b'{"n": %d}' % counts.get(r.key, partition), -1) for r in records]
        app.producer.send_batch(f"{app.conf.id}.out", told)
    await each_batch(stream, work)
"""
