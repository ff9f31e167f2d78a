"""Which Postgres is looked at first, and what is told about jars that can't be fetched."""

from pathlib import Path

import pytest

from ops.embedded.jars import explain
from ops.embedded.postgres_programs import find_programs, installed_folders
from ops.embedded.process import OURSELVES
from ops.errors import CannotRunHere


def program(folder: Path, name: str, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
    (folder / name).chmod(0o755)


def test_the_one_in_path_goes_first_then_the_newest_of_the_distribution(tmp_path: Path) -> None:
    for version in ("9", "15", "17"):
        program(tmp_path / version / "bin", "postgres", version)
    (tmp_path / "notes" / "bin").mkdir(parents=True)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "postgres").symlink_to(tmp_path / "15" / "bin" / "postgres")
    folders = list(installed_folders(str(tmp_path / "links"), tmp_path))
    assert [each.parent.name for each in folders] == ["15", "17", "9"]


def test_one_without_initdb_or_too_old_or_of_other_data_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.embedded.postgres_programs._DISTRIBUTIONS", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    program(tmp_path / "18" / "bin", "postgres", "18.1")
    for name in ("postgres", "initdb"):
        program(tmp_path / "14" / "bin", name, "14.2")
        program(tmp_path / "16" / "bin", name, "16.2")
    with pytest.raises(CannotRunHere) as refused:
        find_programs("installed", OURSELVES, tmp_path, data_major=15)
    told = str(refused.value)
    assert "can't both be run" in told
    assert "is Postgres 14, 15 or newer is needed" in told
    assert "is Postgres 16, but the data were made by 15" in told
    assert "DATABASE_URL" in told
    assert find_programs("installed", OURSELVES, tmp_path, data_major=None).major == 16


def test_an_untrusted_certificate_is_told_with_its_cure() -> None:
    told = explain("a:b:1", OSError("Max retries (Caused by SSLError('certificate verify failed'))"))
    assert "REQUESTS_CA_BUNDLE" in told
    assert "Max retries" not in told


def test_a_missing_network_is_told_with_its_cure() -> None:
    told = explain("a:b:1", ConnectionError("Temporary failure in name resolution"))
    assert "needs a network" in told
    assert "KAFKA_BOOTSTRAP_SERVERS" in told


def test_a_full_disk_is_told_as_such() -> None:
    assert "full" in explain("a:b:1", OSError(28, "No space left on device"))
