"""Whatever stands in a file that a command reads, it is told in our own words, and nothing is half done.

Files are anything at all, and good ones with bytes changed, cut out, doubled or joined; each goes through the
whole command. A command that takes a file and isn't here fails.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.cdc.files import FILES
from ops.cli import tree
from ops.commands import dlq_import
from ops.errors import UNEXPECTED, Unreachable, exit_code_of
from settings import RajadaError, get_settings
from tests.unit.test_fuzz import LINE, ODD, broken

NOWHERE = {
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "RAJADA_CONNECT_URL": "http://127.0.0.1:1",
}
"""Servers that refuse: a file that is well is told by that it comes so far."""
LETTER = b'{"place": "dead/0/0", "died_at": null, "key": "a", "value": "b", "headers": []}'
CONNECTOR = (Path(__file__).parents[2] / "deploy/connect/dispatch.json").read_bytes()


def _file(folder: Path, content: bytes) -> list[str]:
    (folder / "input").write_bytes(content)
    return [str(folder / "input")]


def _connector(folder: Path, content: bytes) -> list[str]:
    for name in FILES:
        (folder / name).write_bytes(content)
    return ["--files", str(folder)]


INPUTS: dict[str, tuple[list[str], Callable[[Path, bytes], list[str]], bytes]] = {
    "produce": (["produce", "--dry-run"], _file, LINE + b"\n" + LINE),
    "produce, to a server": (["produce"], _file, LINE),
    "dlq import": (["dlq", "import"], _file, LETTER + b"\n" + LETTER),
    "connector register": (["connector", "register"], _connector, CONNECTOR),
    "connector status": (["connector", "status"], _connector, CONNECTOR),
    "connector remove": (["connector", "remove"], _connector, CONNECTOR),
}
"""Command → how it is called, how its file is laid out, and a good one."""
WRITTEN = {("engine", "log"), ("dlq export", "to")}
"""Files that a command writes."""


def refused(*_: object, **__: object) -> None:
    raise Unreachable("no broker")


@pytest.fixture(autouse=True, scope="module")
def nowhere() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        for name, value in {**NOWHERE, "RAJADA_HOME": home}.items():
            patch.setenv(name, value)
        # an answer that no broker gives is waited for, for seconds
        patch.setattr(dlq_import, "_imported", refused)
        get_settings.cache_clear()
        yield
    get_settings.cache_clear()


def run(name: str, content: bytes) -> tuple[int, str]:
    """The exit code of a command with such a file, and all that it said. Raises what nobody foresaw."""
    call, lay_out, _ = INPUTS[name]
    with tempfile.TemporaryDirectory() as folder:
        done = CliRunner().invoke(tree(), [*call, *lay_out(Path(folder), content)])
    error = done.exception
    if error is None or isinstance(error, SystemExit):
        return done.exit_code, done.output
    if isinstance(error, RajadaError):
        return exit_code_of(error), str(error)
    raise error


def files_of(command: object, name: str = "") -> Iterator[tuple[str, str]]:
    """(command, parameter) of all that name a file or a folder."""
    for part, inner in getattr(command, "commands", {}).items():
        yield from files_of(inner, f"{name} {part}".strip())
    for one in getattr(command, "params", []):
        described = getattr(one, "type_descriptor", None)
        words = f"{one.name} {one.metavar} {getattr(described, 'annotation', '')}".lower()
        if "file" in words or "path" in words or "folder" in words or (name, one.name) in WRITTEN:
            yield name, str(one.name)


def test_every_command_that_reads_a_file_is_tried() -> None:
    found = set(files_of(tree()))
    assert found >= WRITTEN and ("produce", "file") in found and ("connector register", "files") in found
    read = {name for name, _ in found - WRITTEN}
    assert read == {name.partition(",")[0] for name in INPUTS}


@pytest.mark.thorough
@pytest.mark.parametrize("name", INPUTS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_file_is_taken_or_refused_in_our_words(name: str, data: st.DataObject) -> None:
    good = INPUTS[name][2]
    code, told = run(name, data.draw(st.one_of(broken(good), broken(good), st.binary(max_size=200))))
    assert code != UNEXPECTED and "Traceback" not in told
    assert code == 0 or told.strip()


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(
    "content", [*ODD, b"\xff" + CONNECTOR, CONNECTOR + b"${NIX}"], ids=range(len(ODD) + 2)
)
def test_odd_files_are_refused_in_our_words(name: str, content: bytes) -> None:
    code, told = run(name, content)
    assert code != UNEXPECTED and "Traceback" not in told and (code == 0 or told.strip())


def test_of_a_file_with_one_wrong_line_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(dlq_import, "_imported", lambda *_, **__: begun.append(True))
    assert run("dlq import", LETTER + b"\n{")[0] == 9 and not begun
    assert run("dlq import", LETTER)[0] != 9 and begun
