"""Connectors of Debezium for one test: its own names, its own database, the Kafka Connect that all share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
import pytest

from db.replication import SlotStatus, slot_status
from ops.cdc.condition import Seen
from ops.cdc.connectors import Connectors, Registered
from ops.cdc.files import connectors
from ops.cdc.rest import Connect
from ops.embedded.connect import EmbeddedConnect
from settings import Settings
from tests.databases import drop_slot
from tests.integration.db.conftest import Topics, topics_of

HEARTBEAT_S = 0.3


@dataclass
class Cdc:
    """The connectors of one installation on one database."""

    url: str
    bootstrap: str
    settings: Settings
    connect: Connect
    topics: Topics
    dispatch: str = field(init=False)
    """Name of the connector of messages, of its slot and its publication."""

    def __post_init__(self) -> None:
        wanted = connectors(self.settings, self.url)
        self.all = Connectors(wanted, self.connect, self.url)
        self.dispatch = wanted[0].name

    def register(self, *, pass_refused: bool = False) -> list[Registered]:
        return self.all.register(self.bootstrap, self.settings, pass_refused=pass_refused)

    def seen(self) -> Seen:
        """The connector of messages as it is."""
        return self.all.status()[0]

    def slot(self) -> SlotStatus | None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return slot_status(connection, self.dispatch)

    def drop_slot(self) -> None:
        """As somebody does by mistake, or a server that was restored: nobody is told."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            drop_slot(connection, self.dispatch)


def settings_of(prefix: str, **more: object) -> Settings:
    """Names that no other test uses; quick signs of life."""
    name = f"cdc_{prefix.rstrip('.')}"
    values = {"topic_prefix": prefix, "slot": name, "publication": name, "heartbeat_s": HEARTBEAT_S, **more}
    return Settings.model_validate(values)


@pytest.fixture
def cdc(kafka: str, database: str, prefix: str, connect: EmbeddedConnect) -> Iterator[Cdc]:
    """Both connectors, registered and running; removed after the test."""
    settings = settings_of(prefix)
    with topics_of(kafka, settings) as topics, Connect(connect.url) as rest:
        made = Cdc(database, kafka, settings, rest, topics)
        made.register()
        yield made
        if connect.pid is None:
            connect.start()
        made.all.remove()
