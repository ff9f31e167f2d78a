"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import jgo  # noqa: F401  # see below
import psycopg
import pytest

from ops.clinic import Connection
from tests.e2e.processes import Processes

# jgo comes before any test leaves garbage: in CPython 3.11 a collection in the middle of a long import that
# imports something itself breaks the first (KeyError in the import lock), and with it the whole session.

MakeProcesses = Callable[..., Processes]


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    """A connection to the test's database, each statement its own transaction."""
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


@pytest.fixture
def processes(tmp_path: Path, kafka: str, database: str, prefix: str) -> Iterator[MakeProcesses]:
    """Makes the processes with further settings; they are ended after the test."""
    made: list[Processes] = []

    def make(folder: Path = tmp_path, **settings: str) -> Processes:
        made.append(Processes(folder, kafka, database, prefix, **settings))
        return made[-1]

    yield make
    for one in made:
        one.stop()
