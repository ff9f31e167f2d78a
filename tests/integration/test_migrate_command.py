"""`rajada migrate`: a CRM's database is changed only when somebody said so; `rajada up` doesn't at all."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from db.migrate import pending
from tests.integration.db.crm import make_existing_crm

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def crm(empty_database: str) -> str:
    """URL of an existing CRM's database that has nothing of ours."""
    make_existing_crm(empty_database)
    return empty_database


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal: ours, the program's."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def run(url: str, arguments: Sequence[str], home: Path, stdin: int = subprocess.DEVNULL) -> tuple[int, str]:
    """Exit code and all that a command said."""
    ended = subprocess.run(
        [sys.executable, "-m", "ops.cli", *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        cwd=REPOSITORY,
        env={**os.environ, "DATABASE_URL": url, "RAJADA_HOME": str(home)},
    )
    return ended.returncode, " ".join(ended.stdout.split())


def untouched(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT to_regnamespace('rajada') IS NULL").fetchone() == (True,)


def test_a_dry_run_tells_and_changes_nothing(crm: str, tmp_path: Path) -> None:
    code, said = run(crm, ["migrate", "--dry-run"], tmp_path)
    assert code == 0 and "would create in schema rajada" in said and "Nothing was changed." in said
    assert untouched(crm)


def test_where_nobody_can_be_asked_it_wants_yes(crm: str, tmp_path: Path) -> None:
    code, said = run(crm, ["migrate"], tmp_path)
    assert code == 2 and "give --yes" in said and untouched(crm)
    code, said = run(crm, ["migrate", "--yes"], tmp_path)
    assert code == 0 and "is up to date (an existing CRM's database)" in said
    assert pending(crm, crm="existing") == []
    assert run(crm, ["migrate"], tmp_path)[0] == 0, "nothing is left to ask for"
    assert "nothing is left to do" in run(crm, ["migrate", "--dry-run"], tmp_path)[1]


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_somebody_at_a_terminal_is_asked(
    crm: str, tmp_path: Path, terminal: tuple[int, int], answer: bytes, code: int
) -> None:
    ours, theirs = terminal
    os.write(ours, answer)
    ended, said = run(crm, ["migrate"], tmp_path, stdin=theirs)
    assert ended == code and "as told above?" in said
    assert untouched(crm) == (code != 0)


def test_up_changes_no_crm_unasked(crm: str, tmp_path: Path) -> None:
    code, said = run(crm, ["up", "--servers-only"], tmp_path / "home")
    assert code == 7 and "`rajada migrate` asks and applies them" in said
    assert untouched(crm)


def test_our_own_tables_are_made_without_a_question(empty_database: str, tmp_path: Path) -> None:
    code, said = run(empty_database, ["migrate"], tmp_path)
    assert code == 0 and "is up to date (our own tables)" in said
