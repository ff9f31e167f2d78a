"""A lab for each test here, on a copy of one migrated database."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from db.migrate import migrate
from db.urls import url_of
from tests.integration.reconcile.lab import Lab


@pytest.fixture(scope="session")
def migrated(postgres: str) -> Iterator[str]:
    """Name of a migrated database that nobody is connected to: copying it is quicker than migrating."""
    name = f"t{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        migrate(url_of(postgres, name), crm="ours")
        yield name
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def bench(postgres: str, migrated: str) -> Iterator[Lab]:
    """A migrated database without instances, dropped after the test."""
    name = f"t{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{migrated}"')
        made = Lab(url_of(postgres, name))
        yield made
        made.close()
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
