"""Jars that a Java starts from stay where they are, whatever whoever fetched them does with its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ops.embedded import jars
from ops.embedded.folder import DataFolder


def test_who_fetches_the_same_jars_takes_them_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = tmp_path / "environment"

    def fetch(coordinate: str) -> list[Path]:
        shutil.rmtree(fetched, ignore_errors=True)  # as jgo does with environments that have modules
        fetched.mkdir()
        found = []
        for name in ("log4j-slf4j-impl-1.jar",) if coordinate == jars.LOGGING else ("a.jar", "b.jar"):
            (fetched / name).write_text(f"{coordinate} {name}")
            found.append(fetched / name)
        return found

    monkeypatch.setenv("JGO_CACHE_DIR", str(tmp_path / "jgo"))
    monkeypatch.setattr(jars, "_fetch", fetch)
    folders = [DataFolder(tmp_path / name) for name in ("first", "second")]
    for folder in folders:
        folder.cache.mkdir(parents=True)
    first = jars.connect_jars(folders[0])
    shutil.rmtree(fetched)
    assert [jar.name for jar in first] == ["a.jar", "b.jar", "log4j-slf4j-impl-1.jar"]
    assert all(jar.read_text().endswith(jar.name) for jar in first)
    assert jars.connect_jars(folders[1]) == first
    assert jars.debezium_jars(folders[0])[0] not in first
    assert first[0].read_text().startswith(jars.CONNECT)
