"""Debezium with exactly-once on: after kill -9 readers of committed records see each row once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.cdc.files import worker_environment
from ops.cdc.rest import Connect
from ops.embedded.connect import EmbeddedConnect
from settings import Settings
from tests.e2e.waiting import until
from tests.integration.cdc.conftest import Cdc, settings_of
from tests.integration.db.conftest import numbers_by_key, topics_of
from tests.integration.db.crm import AI
from tests.integration.db.test_relay_crashes import load

pytestmark = pytest.mark.long


@pytest.fixture
def once(kafka: str, prefix: str, tmp_path: Path) -> Iterator[tuple[EmbeddedConnect, Settings]]:
    """A Kafka Connect of its own: exactly-once is a setting of the worker."""
    settings = settings_of(prefix, connect_exactly_once=True)
    environment = worker_environment(settings, kafka, "postgresql://")
    with EmbeddedConnect(tmp_path / "connect", lambda: environment) as connect:
        yield connect, settings


def test_kill_9_under_load_loses_nothing_and_doubles_nothing(
    database: str, kafka: str, once: tuple[EmbeddedConnect, Settings]
) -> None:
    connect, settings = once
    with topics_of(kafka, settings) as topics, Connect(connect.url) as rest:
        cdc = Cdc(database, kafka, settings, rest, topics)
        cdc.register()
        config = rest.config(cdc.dispatch)
        assert config is not None and config["exactly.once.support"] == "required"
        with load(database, 20, 0.01) as written:
            for _ in range(2):
                time.sleep(2)
                connect.kill()
                connect.start()
                until(lambda: cdc.seen().condition.running, 60, every=0.1)
            time.sleep(1)
        by_key = numbers_by_key(topics.read(AI, written[0], 60))
        cdc.all.remove()
    assert sorted(number for numbers in by_key.values() for number in numbers) == list(range(written[0]))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
