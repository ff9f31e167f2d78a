"""A Kafka that asks for a login over TLS: the transport and every other client get in, by the settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.workers import ROOT
from kafka_access import kafka_client
from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.ports import HOST
from settings import Settings
from streams.topics import ensure_topics

from .transport_lab import until

NAME, PASSWORD = "rajada", "let-me-in"
OPENSSL = [
    "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
]  # fmt: skip


class LockedKafka(EmbeddedKafka):
    """An embedded broker whose listener takes only TLS and a login."""

    ca: Path

    def settings(self, **more: object) -> Settings:
        login = {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_username": NAME,
                 "kafka_sasl_password": PASSWORD, "kafka_ssl_ca": self.ca, **more}  # fmt: skip
        return Settings(_env_file=None, kafka_bootstrap_servers=self.bootstrap, **login)

    def _prepare(self) -> None:
        super()._prepare()
        file = self._file("server.properties")
        self.ca, key = self._file("ca.pem"), self._file("key.pem")
        if not self.ca.exists():
            subprocess.run(
                [*OPENSSL, "-addext", f"subjectAltName=IP:{HOST}", "-keyout", str(key), "-out", str(self.ca)],
                check=True,
                capture_output=True,
            )
            key.write_text(key.read_text() + self.ca.read_text())
        users = f'username="{NAME}" password="{PASSWORD}" user_{NAME}="{PASSWORD}";'
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        lines = {
            "listeners": f"SASL_SSL://{HOST}:{self._port},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"SASL_SSL://{HOST}:{self._port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{plain} {users}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }
        kept = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in lines]
        file.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in lines.items())]) + "\n")

    def answers(self) -> bool:
        client = AdminClient({**kafka_client(self.bootstrap, self.settings()), "log_level": 0})
        try:
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedKafka]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    with LockedKafka(tmp_path_factory.mktemp("locked") / "data") as server:
        yield server


@pytest.fixture
def environment(locked):
    """The variables by which a user names this Kafka."""
    return {
        "KAFKA_BOOTSTRAP_SERVERS": locked.bootstrap,
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_USERNAME": NAME,
        "KAFKA_SASL_PASSWORD": PASSWORD,
        "KAFKA_SSL_CA": str(locked.ca),
    }


def test_topics_are_made_and_a_wrong_password_is_refused(locked, prefix, monkeypatch):
    settings = locked.settings(topic_prefix=prefix, partitions=2)
    monkeypatch.setattr("kafka_access.get_settings", lambda: settings)
    assert f"{prefix}dispatch.jobs" in ensure_topics(locked.bootstrap, settings)
    wrong = locked.settings(kafka_sasl_password="wrong")
    client = AdminClient({**kafka_client(locked.bootstrap, wrong), "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)


def test_a_worker_reads_and_writes_with_both_of_its_clients(locked, prefix, tmp_path, environment):
    name = f"{prefix}views"
    (tmp_path / "login.py").write_text(APP)
    access = kafka_client(locked.bootstrap, locked.settings())
    admin = AdminClient(access)
    for future in admin.create_topics([NewTopic(f"{name}.{one}", 2, 1) for one in ("in", "out")]).values():
        future.result(20)
    producer = Producer(access)
    producer.produce(f"{name}.in", b"x", b"k")
    producer.flush()
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "faust", "-A", "login", "worker", "--without-web"],
            cwd=tmp_path, env={**os.environ, **environment, "APP_ID": name, "PYTHONPATH": str(ROOT)},
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
