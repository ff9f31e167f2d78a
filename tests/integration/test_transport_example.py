"""The application in docs/transport.md runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from chaos.transport import create_topics, delete_topics
from chaos.workers import ROOT

from .transport_lab import until


def test_the_example_counts_and_survives_a_restart(kafka, prefix, tmp_path):
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/transport.md").read_text(), re.DOTALL)
    assert len(source.strip().splitlines()) <= 40
    (tmp_path / "views.py").write_text(source)
    name = f"{prefix}views"
    topics = [f"{name}.seen", f"{name}.told"]
    create_topics(kafka, topics, 4)
    environment = {**os.environ, "APP_ID": name, "KAFKA_BOOTSTRAP_SERVERS": kafka, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "faust", "-A", "views", "worker", "--without-web"]
    producer = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    reader = Consumer({"bootstrap.servers": kafka, "group.id": name + "-r", "auto.offset.reset": "earliest"})
    reader.subscribe([f"{name}.told"])
    told: Counter[tuple[bytes, bytes]] = Counter()

    def heard(pages: int, n: int) -> bool:
        for message in reader.consume(100, 0.2):
            assert message.error() is None
            told[message.key(), message.value()] += 1
        return sum(value == b"%d" % n for _, value in told) == pages

    try:
        for n in (10, 20):
            with (tmp_path / "log").open("ab") as log:
                worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
            try:
                for i in range(100):
                    producer.produce(f"{name}.seen", b"view", f"page {i % 10}")
                producer.flush()
                until(lambda n=n: heard(10, n), 30, (tmp_path / "log").read_text()[-1000:])
            finally:
                worker.terminate()
                assert worker.wait(15) == 0
        assert set(told.values()) == {1}
        changelog = ConfigResource(ConfigResource.Type.TOPIC, f"{name}-pages-changelog")
        admin = AdminClient({"bootstrap.servers": kafka})
        settings = admin.describe_configs([changelog])[changelog].result(20)
        assert settings["cleanup.policy"].value == "compact"
        assert settings["min.compaction.lag.ms"].value == str(30 * 60 * 1000)
    finally:
        reader.close()
        delete_topics(kafka, [*topics, f"{name}-pages-changelog"])
