"""What tests may ask for: a real Kafka and a real Postgres, once a run, and a corner of one's own in them."""

from __future__ import annotations

import ast  # noqa: F401  # see below
import sys
import tracemalloc  # noqa: F401  # see below
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as hypothesis_settings
from psycopg.conninfo import conninfo_to_dict

from tests.databases import fresh_database
from tests.servers import kafka_server, postgres_server

if TYPE_CHECKING:
    from ops.embedded.connect import EmbeddedConnect
    from ops.embedded.registry import EmbeddedRegistry
    from ops.engine.serving import EngineBeside
    from ops.whatsapp.serving import WhatsAppBeside

# What garbage raises when it is collected is told by pytest with tracemalloc, and by traceback with ast. Both
# are there beforehand: in CPython 3.11 an import that a collection makes in the middle of another breaks that
# one (KeyError in the import lock), and the test with it.

# jsonschema imports it where it is installed, and it compiles 38 grammars then, for seconds in each process:
# no test of ours asks whether a text is a URI.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # "can't be imported"

# A busy machine is no failure: examples are bounded in number, not in time. `make test-thorough` takes more
# of them (--hypothesis-profile=thorough); who runs one file by hand wants few.
hypothesis_settings.register_profile("quick", deadline=None, max_examples=25)
hypothesis_settings.register_profile("thorough", deadline=None)
hypothesis_settings.load_profile("quick")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """bootstrap.servers of a real Kafka."""
    with kafka_server(_folder(tmp_path_factory, "kafka")) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a superuser on a real Postgres with wal_level=logical."""
    with postgres_server(_folder(tmp_path_factory, "postgres")) as url:
        yield url


@pytest.fixture(scope="session")
def connect(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedConnect]:
    """A Kafka Connect with Debezium, for connectors to any Postgres here that asks for no password."""
    from ops.cdc.files import worker_environment
    from ops.embedded.connect import EmbeddedConnect
    from settings import Settings

    settings = Settings(topic_prefix=f"c{uuid.uuid4().hex[:10]}.")
    folder = _folder(tmp_path_factory, "connect")
    with EmbeddedConnect(folder, lambda: worker_environment(settings, kafka, "postgresql://")) as server:
        yield server


def _folder(factory: pytest.TempPathFactory, name: str) -> Path:
    return factory.mktemp(name) / "data"


@pytest.fixture(scope="session")
def registry_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRegistry]:
    """A real schema registry; tests that stop it start it again, and nobody relies on another's schemas."""
    from ops.embedded.registry import EmbeddedRegistry

    with EmbeddedRegistry(_folder(tmp_path_factory, "registry")) as server:
        yield server


@pytest.fixture
def registry_url(registry_server: EmbeddedRegistry) -> str:
    """What SCHEMA_REGISTRY_URL takes, of a registry that answers."""
    return registry_server.start().url


@pytest.fixture
def engine() -> Iterator[EngineBeside]:
    """A stand-in agent engine of its own: a real HTTP server that does as `engine.treat(…)` tells it."""
    from ops.engine.serving import EngineBeside

    with EngineBeside() as stand_in:
        yield stand_in


@pytest.fixture
def whatsapp() -> Iterator[WhatsAppBeside]:
    """A stand-in WhatsApp of its own: a real HTTP server that does as `whatsapp.treat(…)` tells it."""
    from ops.whatsapp.serving import WhatsAppBeside

    with WhatsAppBeside(token="stand-in-token") as stand_in:
        yield stand_in


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}."


@pytest.fixture
def empty_database(postgres: str) -> Iterator[str]:
    """URL of a fresh, empty database; it and its replication slots are dropped after the test."""
    with fresh_database(postgres) as url:
        yield url


@pytest.fixture(scope="session")
def migrated(postgres: str) -> Iterator[str]:
    """Name of a database with all tables, to make others from: a copy takes a tenth of the time."""
    from db.migrate import migrate

    with fresh_database(postgres) as url:
        migrate(url, crm="ours")
        yield str(conninfo_to_dict(url)["dbname"])


@pytest.fixture
def database(postgres: str, migrated: str) -> Iterator[str]:
    """URL of a fresh database with all tables, dropped like an empty one."""
    with fresh_database(postgres, migrated) as url:
        yield url
