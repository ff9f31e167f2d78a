"""What the image is built from installs whole: nothing that a process reads is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.deploy.shipped import ROOT

pytestmark = pytest.mark.long


def files_in(folder: Path) -> set[str]:
    """What a process could read there."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", "bin", "build"} & set(path.relative_to(folder).parts)
        if not any(part.endswith((".dist-info", ".egg-info")) for part in path.parts)
    }


def test_the_context_of_the_image_installs_with_every_file_and_runs_from_there(tmp_path: Path) -> None:
    context, installed = tmp_path / "context", tmp_path / "installed"
    context.mkdir()
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, context / name)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(installed), str(context)],
        check=True, env=environment, timeout=200,
    )  # fmt: skip
    apart = {"pyproject.toml", "requirements.lock", "README.md", "LICENSE"}
    of_context = {name for name in files_in(context) - apart if not name.startswith("deploy")}
    assert of_context - files_in(installed) == set()
    code = (
        "import db, ops.cli; from db.queries import names; print(db.__file__, len(names())); ops.cli.main()"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60,
        env={**environment, "PYTHONPATH": str(installed)},
    ).stdout  # fmt: skip
    assert str(installed) in told and "rajada " in told
