"""The command line: exit codes, errors without a traceback, quick help."""

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ops import errors
from ops.commands.stack import _ago
from ops.errors import exit_code_of
from ops.given import shown
from ops.progress import PlainLines, line_of
from ops.supervision.run_file import UnitView
from settings import RajadaError


def rajada(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "RAJADA_HOME": str(home), **environment},
        timeout=30,
    )


def test_each_kind_of_error_has_its_own_exit_code() -> None:
    kinds = [
        errors.OpsError,
        errors.NotRunning,
        errors.AlreadyRunning,
        errors.CannotRunHere,
        errors.Unreachable,
        errors.StartFailed,
    ]
    assert [exit_code_of(kind("")) for kind in kinds] == [3, 4, 5, 6, 7, 8]
    assert exit_code_of(errors.FolderRefused("")) == 6
    assert exit_code_of(RajadaError("")) == 3
    assert exit_code_of(ValueError("")) == 1


@pytest.mark.thorough
def test_an_error_is_told_in_one_message_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    done = rajada("up", home=tmp_path)
    assert done.returncode == 6
    assert "isn't a data folder of Rajada" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_the_traceback_is_there_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    done = rajada("up", home=tmp_path, RAJADA_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.thorough
def test_commands_on_nothing_say_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    status = rajada("status", "--json", home=home)
    assert (status.returncode, status.stdout) == (4, '{"state":"stopped"}\n')
    assert rajada("down", home=home).returncode == 0
    topics = rajada("topics", "check", home=home)
    assert topics.returncode == 4
    assert "rajada up" in topics.stderr
    assert not home.exists()


@pytest.mark.thorough
def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, ops.cli;"
        "heavy = {'faust', 'psycopg', 'confluent_kafka', 'jgo', 'avro', 'db', 'streams', 'sinks'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:secret@h:5/d", "postgresql://u@h:5/d"),
        ("host=h dbname=d password=secret", "postgresql://h/d"),
        ("postgresql://[::broken", "the database of DATABASE_URL"),
    ],
)
def test_a_database_is_shown_without_its_password(url: str, told: str) -> None:
    assert shown(url) == told


def test_plain_lines_tell_each_change_once() -> None:
    console = Console(width=200, file=None, record=True, quiet=False)
    with console.capture() as said:
        lines = PlainLines(console)
        lines.show([UnitView("kafka", "starting", 0.0)])
        ready = UnitView("kafka", "ready", 0.0, listens="127.0.0.1:1", took_s=1.23)
        lines.show([ready])
        lines.show([ready])
    assert said.get() == f"{line_of(ready)}\n"


def test_a_line_says_how_long_where_and_why() -> None:
    assert line_of(UnitView("kafka", "ready", 0.0, listens="h:1", took_s=1.26)).split() == [
        "kafka",
        "ready",
        "1.3",
        "s",
        "h:1",
    ]
    long = line_of(UnitView("sink", "restarting", 0.0, reason="x" * 500 + "\nmore"))
    assert long.endswith("x…")
    assert "more" not in long


def test_spans_are_told_in_their_largest_unit() -> None:
    assert [_ago(s) for s in (-1, 5, 125, 7_300, 200_000)] == ["0 s", "5 s", "2 min", "2 h", "2 d"]
