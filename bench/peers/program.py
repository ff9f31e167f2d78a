"""A peer's process: started with its variables, watched for readiness, CPU and memory, stopped or killed.

It tells that it owns its partitions and has its state by writing the time (ms since the epoch) into the file
that PEER_READY names: a Java program can do that as well as a Python one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peer import Unavailable
from bench.processes import NotReady, Usage
from bench.workload import WINDOW_MS
from settings import Settings
from streams import topics

READY_S = 150.0
STOP_S = 20.0
PYTHON = "RAJADA_PEERS_PYTHON"
"""Environment variable: the Python that has the peers' packages; unset: the one that measures.

Quix Streams holds the Kafka client and pydantic below versions that we run on; in an environment of their own
the peers leave ours as it is installed.
"""
INSTALL = "pip install 'rajada[peers]'"
_TICKS = os.sysconf("SC_CLK_TCK")
_ROOT = Path(__file__).parents[2]


def python() -> str:
    """The Python that runs a peer."""
    return os.environ.get(PYTHON) or sys.executable


def version_of(package: str) -> str:
    """The version of a package in the peers' Python; raises Unavailable, saying how to get it."""
    asked = subprocess.run(
        [
            python(),
            "-c",
            "import sys; from importlib.metadata import version; print(version(sys.argv[1]))",
            package,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise Unavailable(
            f"{package} is not installed: {INSTALL}, best in an environment of its own, "
            f"whose Python the variable {PYTHON} names"
        )
    return asked.stdout.strip()


@dataclass(frozen=True, slots=True)
class Command:
    """How a peer is started, and with which variables of its own."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def variables(settings: Settings, name: str, database_url: str) -> dict[str, str]:
    """What every peer's process is told."""
    return {
        "PEER_BOOTSTRAP": settings.bootstrap(),
        "PEER_SOURCE": settings.topic(topics.SOURCE),
        "PEER_JOBS": settings.topic(topics.JOBS),
        "PEER_OUTCOMES": settings.topic(topics.OUTCOMES),
        "PEER_APPLICATION": settings.topic(name),
        "PEER_PARTITIONS": str(settings.partitions),
        "PEER_WINDOW_MS": str(WINDOW_MS),
        "PEER_DATABASE": database_url,
    }


class Program:
    """One running peer; its state and its log are in `home`, which outlives it."""

    def __init__(self, name: str, command: Command, told: Mapping[str, str], home: Path) -> None:
        self.name = name
        self._ready = home / "ready"
        self._ready.unlink(missing_ok=True)
        self._log = home / "log"
        environment = {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            **told,
            "PEER_READY": str(self._ready),
            "PEER_STATE": str(home / "state"),
            **command.environment,
        }
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                command.arguments, env=environment, stdout=output, stderr=output, cwd=home
            )

    def wait_ready(self) -> float:
        """Wait until it says so; returns when it said it, in Unix seconds. Raises NotReady."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._ready.exists():
                return int(self._ready.read_text()) / 1000
            time.sleep(0.005)
        raise NotReady(f"{self.name} is not ready (exit code {self._process.poll()}):\n{self.tail()}")

    def ensure_alive(self) -> None:
        """Raises NotReady when it has ended."""
        if self._process.poll() is not None:
            raise NotReady(f"{self.name} ended with code {self._process.returncode}:\n{self.tail()}")

    def usage(self) -> Usage:
        """What it and its children that have ended used since it was started (Linux)."""
        place = Path(f"/proc/{self._process.pid}")
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        peak = next(line for line in (place / "status").read_text().splitlines() if "VmHWM" in line)
        return Usage(sum(map(int, fields[11:15])) / _TICKS, int(peak.split()[1]) / 1024)

    def tail(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-3_000:]

    def kill(self) -> None:
        """`kill -9`: no chance to commit, flush or leave the group."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, then kill -9."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()


def python_command(module: str, package: str, arguments: Sequence[str] = ()) -> Command:
    """The command of a peer written in Python; raises Unavailable when its package is missing."""
    version_of(package)
    return Command((python(), "-m", module, *arguments), {})


def ready() -> None:
    """Called by a peer in Python: it owns its partitions and has its state."""
    note = Path(os.environ["PEER_READY"])
    draft = note.with_suffix(".new")
    draft.write_text(str(time.time_ns() // 1_000_000))
    draft.replace(note)
