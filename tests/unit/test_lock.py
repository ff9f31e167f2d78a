"""What is installed is locked: versions with their hashes, within what pyproject.toml asks for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(name: str) -> dict[str, set[str]]:
    """Package → the versions that the lock has of it, one for each range of Pythons."""
    found: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / name).read_text(), re.M):
        found.setdefault(canonicalize_name(package), set()).add(version)
    return found


def asked(extras: set[str]) -> list[Requirement]:
    """What pyproject.toml asks for, with these extras and those that they name."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = [Requirement(line) for line in lines]
    more = {one for need in found if need.name == "rajada" for one in need.extras} - extras
    return asked(extras | more) if more else [need for need in found if need.name != "rajada"]


@pytest.mark.parametrize(("name", "extras"), [(LOCKS[0], {"tracing"}), (LOCKS[1], {"dev"})])
def test_every_package_that_is_asked_for_is_locked_within_its_bounds(name: str, extras: set[str]) -> None:
    versions = locked(name)
    for need in asked(extras):
        have = versions.get(canonicalize_name(need.name), set())
        assert have and all(need.specifier.contains(one) for one in have), f"{need}: {have}; `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_every_entry_has_hashes_and_says_nothing_of_where_it_came_from(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 50
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+", entry), entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry[:80]
    assert "://" not in text and "index" not in re.sub(r"(?m)^[a-z0-9._-]+==.*$", "", text)


def test_what_runs_is_what_is_tested() -> None:
    runs, tested = (locked(name) for name in LOCKS)
    assert {package: tested.get(package) for package in runs} == runs


def test_the_image_takes_the_lock_and_nothing_else() -> None:
    lines = (ROOT / "deploy/image/Dockerfile").read_text()
    installs = re.findall(r"pip install ([^&\n]*)", lines)
    assert installs == ["--require-hashes -r /src/requirements.lock \\", "--no-deps /src "], installs


@pytest.mark.thorough
def test_the_sbom_lists_what_is_locked(tmp_path: Path) -> None:
    made = tmp_path / "sbom.json"
    subprocess.run(
        [Path(sys.executable).parent / "cyclonedx-py", "requirements", ROOT / LOCKS[0],
         "--output-reproducible", "--of", "JSON", "-o", made],
        check=True, timeout=120,
    )  # fmt: skip
    sbom = json.loads(made.read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    listed: dict[str, set[str]] = {}
    for one in sbom["components"]:
        listed.setdefault(canonicalize_name(one["name"]), set()).add(one["version"])
        assert one["purl"].startswith("pkg:pypi/") and "SHA-256" in json.dumps(one), one["name"]
    assert listed == locked(LOCKS[0])
