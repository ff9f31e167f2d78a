"""The live page with two organizations on it, once for all tests here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from settings import Settings
from streams.topics import ensure_topics
from tests.databases import fresh_database
from tests.live_page import HOSTILE, Page, Stage, Tenant, connected, served


@pytest.fixture(scope="package")
def stage(kafka: str, postgres: str, migrated: str) -> Iterator[Stage]:
    with fresh_database(postgres, migrated) as url:
        settings = Settings.model_validate(
            {
                "KAFKA_BOOTSTRAP_SERVERS": kafka,
                "DATABASE_URL": url,
                "topic_prefix": f"t{uuid.uuid4().hex[:10]}.",
                "partitions": 2,
            }
        )
        ensure_topics(kafka, settings)
        with connected(url) as connection:
            yield Stage(url, settings, connection)


@pytest.fixture(scope="package")
def ana(stage: Stage) -> Tenant:
    """An organization whose texts are hostile."""
    return stage.tenant(name=HOSTILE, text=HOSTILE)


@pytest.fixture(scope="package")
def bia(stage: Stage) -> Tenant:
    """Another one."""
    return stage.tenant()


@pytest.fixture(scope="package")
def page(stage: Stage, ana: Tenant, bia: Tenant) -> Iterator[Page]:
    with served(stage) as found:
        yield found
