"""Fixtures of the tests on real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jgo  # noqa: F401  # see below
import pytest

import status
from settings import Settings
from tests.integration.sink_lab import Lab

# jgo comes before any test leaves garbage: in CPython 3.11 a collection in the middle of a long import that
# imports something itself breaks the first (KeyError in the import lock), and with it the whole session.


@pytest.fixture(autouse=True)
def _commands_leave_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that a test runs in this process would set up the log for all tests after it: a logger stays
    for ever what it was when it was used first."""
    monkeypatch.setattr("logs.configure_logging", lambda settings: None)


@pytest.fixture
def lab(kafka: str, database: str, prefix: str) -> Iterator[Lab]:
    made = Lab(database, kafka, Settings(topic_prefix=prefix, session_timeout_s=2.0))
    yield made
    made.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the sinks of this test report."""
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path))
    return tmp_path
