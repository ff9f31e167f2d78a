"""Sources of an older version, for tests that run its processes beside this one's."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
RELEASES = CHECKOUT / "tests" / "fixtures" / "releases"
PACKAGES = ("streams", "schemas", "sinks", "db", "ops", "web", "telemetry")


def without_newest_outcome(folder: Path) -> None:
    """Today's sources, without the newest schema of outcomes: they neither write nor know it."""
    for name in PACKAGES:
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in CHECKOUT.glob("*.py"):
        shutil.copy(file, folder)
    versions = sorted((folder / "schemas/versions/Outcome").glob("*.avsc"), key=lambda one: int(one.stem))
    versions[-1].unlink()
    shutil.copy(versions[-2], folder / "schemas/outcome.avsc")


def of_newest_release(folder: Path) -> None:
    """The newest release's as they were when what it writes was recorded in `tests/fixtures/releases`.

    Where that commit isn't there (a shallow clone, no git): `without_newest_outcome`.
    """
    newest = max(RELEASES.glob("*.*.*"), key=lambda one: [int(part) for part in one.name.split(".")])
    records = (newest / "records.json").relative_to(CHECKOUT)
    commits = (_git("log", "--diff-filter=A", "--format=%H", "--", str(records)) or b"").decode().split()
    # the oldest commit of a shallow clone seems to have added everything
    whole = (_git("rev-parse", "--is-shallow-repository") or b"").strip() == b"false"
    sources = _git("archive", commits[-1]) if commits and whole else None
    if sources is None:
        without_newest_outcome(folder)
        return
    with tarfile.open(fileobj=io.BytesIO(sources)) as archive:
        archive.extractall(folder, filter="data")


def run_from(folder: Path) -> bool:
    """Whether a process that starts in a folder runs the sources there."""
    asks = [sys.executable, "-c", "import settings, streams; print(settings.__file__, streams.__file__)"]
    told = subprocess.run(asks, cwd=folder, capture_output=True, text=True, check=True).stdout
    return told.split() == [str(folder / "settings.py"), str(folder / "streams" / "__init__.py")]


def _git(*arguments: str) -> bytes | None:
    """What git says; None: it, or what was asked for, isn't there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
