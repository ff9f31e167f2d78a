"""A lab for each test here, on a copy of one migrated database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import fresh_database
from tests.integration.reconcile.lab import Lab


@pytest.fixture
def bench(postgres: str, migrated: str) -> Iterator[Lab]:
    """A migrated database without instances, dropped after the test."""
    with fresh_database(postgres, migrated) as url:
        made = Lab(url)
        yield made
        made.close()
