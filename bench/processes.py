"""Processes under measurement: started with their settings, watched for readiness, CPU time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import status
from settings import Settings

READY_S = 180.0
STOP_S = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")
_RAJADA = (sys.executable, "-m", "ops.cli")

COMMANDS: dict[str, tuple[str, ...]] = {
    "worker": (sys.executable, "-m", "faust", "-A", "streams", "worker", "--without-web"),
    "relay": (*_RAJADA, "relay"),
    "sink": (*_RAJADA, "sink"),
    "delays": (*_RAJADA, "delays"),
    "plain-loop": (sys.executable, "-m", "bench.plain_loop"),
}
"""Name (as it reports its readiness) → command."""


class NotReady(RuntimeError):
    """A process ended or took too long before it was ready; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used: CPU seconds (user and system), peak resident memory in MiB."""

    cpu_s: float
    peak_mib: float


def busy_s() -> float:
    """CPU seconds that all processes of the machine have used since it was started (Linux)."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS


def cpu_s(pid: int | None) -> float:
    """CPU seconds, user and system, that a process of this machine has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mib(pid: int | None) -> float:
    """Most memory that it had resident, MiB (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@dataclass(frozen=True, slots=True)
class Started:
    """A process that somebody else has started and ends."""

    pid: int | None

    def usage(self) -> Usage:
        """What it has used since it was started (Linux)."""
        return Usage(cpu_s(self.pid), peak_mib(self.pid))


class Process:
    """One of `COMMANDS`, running."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        database_url: str,
        home: Path,
        wrap: tuple[str, ...] = (),
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._status = home / "status"
        self._log = home / f"{name}.log"
        # a predecessor's word in the same home is not this one's
        (self._status / f"{name}.json").unlink(missing_ok=True)
        environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap(),
            "DATABASE_URL": database_url,
            "RAJADA_TOPIC_PREFIX": settings.topic_prefix,
            "RAJADA_SLOT": settings.slot,
            "RAJADA_PUBLICATION": settings.publication,
            "RAJADA_HOME": str(home),
            "RAJADA_JOBS_PAUSED": str(int(settings.jobs_paused)),
            "RAJADA_JOBS_RUN_BY": settings.jobs_run_by,
            "INBOUND_DEBOUNCE_MS": str(settings.inbound_debounce_ms),
            status.STATUS_DIR: str(self._status),
            **(more or {}),
        }
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*wrap, *COMMANDS[name]],
                env=environment,
                stdout=output,
                stderr=output,
                cwd=Path(__file__).parents[1],
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_ready(self) -> float:
        """Wait until it says so; returns when it said it, in Unix seconds. Raises NotReady."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            said = status.read(self._status, self.name)
            if said is not None and said.state == "ready":
                return said.at
            time.sleep(0.005)
        raise NotReady(f"{self.name} is not ready (exit code {self._process.poll()}):\n{self.tail()}")

    def ensure_alive(self) -> None:
        """Raises NotReady when it has ended."""
        if self._process.poll() is not None:
            raise NotReady(f"{self.name} ended with code {self._process.returncode}:\n{self.tail()}")

    def counted(self) -> Mapping[str, int | str]:
        """What it has counted since it was started."""
        counters = status.read_counters(self._status, self.name)
        return counters.values if counters is not None else {}

    def usage(self) -> Usage:
        """What it has used since it was started (Linux)."""
        return Usage(cpu_s(self.pid), peak_mib(self.pid))

    def tail(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-3_000:]

    def stop(self) -> None:
        """SIGTERM, then kill -9."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


@contextmanager
def own_home() -> Iterator[Path]:
    """A folder for the state of a process, removed after the block."""
    with tempfile.TemporaryDirectory(prefix="rajada-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def running(
    *names: str,
    settings: Settings,
    database_url: str,
    wrap: tuple[str, ...] = (),
    more: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Iterator[dict[str, Process]]:
    """Start processes of `COMMANDS` and stop them after the block.

    `wrap` is put before their commands; `more`: further variables of their environment; `home`: where their
    state lies, kept for those that are started there later; without it, a folder that ends with the block.
    """
    with nullcontext(home) if home else own_home() as home:
        started: dict[str, Process] = {}
        try:
            for name in names:
                started[name] = Process(name, settings, database_url, home, wrap, more)
            yield started
        finally:
            for process in started.values():
                process.stop()
