"""The readiness signal: what is reported is what is read, and silence is the default."""

import ast
from pathlib import Path

import pytest

import settings
import status


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path / "status"))
    return tmp_path / "status"


def test_a_report_is_read_back_with_its_reason_and_pid(asked: Path) -> None:
    status.report("worker", "waiting", "Postgres is away")
    said = status.read(asked, "worker")
    assert said is not None
    assert (said.state, said.reason) == ("waiting", "Postgres is away")
    status.report("worker", "ready")
    assert (status.read(asked, "worker") or said).state == "ready"
    assert [path.name for path in asked.iterdir()] == ["worker.json"]


def test_nothing_is_written_when_nobody_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(status.STATUS_DIR, raising=False)
    monkeypatch.chdir(tmp_path)
    status.report("worker", "ready")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_does_not_end_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path / "file" / "status"))
    status.report("worker", "ready")


def test_a_torn_or_foreign_file_reads_as_no_report(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"state": "ready"}'):
        (tmp_path / "sink.json").write_text(text)
        assert status.read(tmp_path, "sink") is None


def test_a_forgotten_report_is_gone_and_forgetting_twice_is_fine(asked: Path) -> None:
    status.report("relay", "ready")
    status.forget(asked, "relay")
    status.forget(asked, "relay")
    assert status.read(asked, "relay") is None


def test_a_name_that_leaves_the_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="lower-case"):
        status.report("../worker", "ready")


@pytest.mark.parametrize("module", [settings, status])
def test_the_lowest_modules_import_nothing_of_ours(module: object) -> None:
    source = Path(str(getattr(module, "__file__", ""))).read_text()
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"ops", "streams", "sinks", "schemas", "db", "settings", "status"}


def test_counters_stand_beside_the_report_and_are_forgotten_with_it(asked: Path) -> None:
    status.report("worker", "ready")
    status.counters("worker", {"read": 3, "sweep": "well"})
    counted = status.read_counters(asked, "worker")
    assert counted is not None
    assert counted.values == {"read": 3, "sweep": "well"}
    assert (status.read(asked, "worker") or counted).pid == counted.pid
    assert status.read_counters(asked, "sink") is None
    status.forget(asked, "worker")
    assert list(asked.iterdir()) == []


def test_torn_counters_read_as_none(tmp_path: Path) -> None:
    for text in ("", "[]", '{"values": []}', '{"values": {}, "at": 1}'):
        (tmp_path / "sink.counters.json").write_text(text)
        assert status.read_counters(tmp_path, "sink") is None
