"""What can be supervised: a server, a program of ours, a step that is done once."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import status
from ops.embedded.process import kill, spawn, stop
from ops.embedded.server import Server

DEFAULT_DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether something is ready; if not, why, as far as it is known."""

    state: Literal["ready", "waiting", "unknown"]
    reason: str = ""


class Unit(ABC):
    """One supervised thing. `prepare` may take long and runs in a thread, everything else is quick."""

    name: str
    after: tuple[str, ...] = ()
    """Names of what must be up before it is started."""
    once: bool = False
    """A program that ends by itself, after which nothing waits for it."""
    stop_signal: signal.Signals = signal.SIGTERM
    has_start_timeout: bool = False
    """Whether it is killed when it isn't ready in time; what waits for others isn't."""
    reports_while_up: bool = False
    """Whether it is asked again once it is ready: it may then wait for something."""

    @abstractmethod
    def prepare(self) -> None:
        """Everything before the process; a step does its work here. Raises RajadaError to stop the start."""

    @abstractmethod
    def spawn(self) -> subprocess.Popen[bytes] | None:
        """Start the process; None for what has none."""

    @abstractmethod
    def readiness(self) -> Readiness:
        """Whether the process does its work."""

    def stop(self, process: subprocess.Popen[bytes] | None, deadline_s: float) -> bool:
        """Stop it; returns False when it had to be killed."""
        return True if process is None else stop(process, self.stop_signal, deadline_s)

    def listens(self) -> str:
        """Where clients find it; empty when nowhere."""
        return ""

    def metrics(self) -> str:
        """Where its metrics are read; empty when nowhere."""
        return ""

    def log_file(self) -> Path | None:
        """Where its output goes."""
        return None


class ServerUnit(Unit):
    """An embedded Kafka or Postgres."""

    has_start_timeout = True

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = server.name
        self.stop_signal = server.stop_signal

    def prepare(self) -> None:
        """Files, ports, programs."""
        self.server.prepare()

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the server's process."""
        return self.server.spawn()

    def readiness(self) -> Readiness:
        """Ready when it gives a real answer."""
        return Readiness("ready" if self.server.answers() else "unknown")

    def stop(self, process: subprocess.Popen[bytes] | None, deadline_s: float) -> bool:
        """Stop the server and give its part of the folder back."""
        return self.server.stop(deadline_s)

    def listens(self) -> str:
        """host:port."""
        return self.server.listens

    def log_file(self) -> Path:
        """The server's log."""
        return self.server.log_file


class Program(Unit):
    """A child process of ours, which reports its readiness by `status.report`."""

    reports_while_up = True

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        status_folder: Path,
        environment: Callable[[], Mapping[str, str]],
        after: tuple[str, ...] = (),
        once: bool = False,
        needless: Callable[[], bool] = lambda: False,
        nice: int = 0,
        listens: str = "",
        metrics: str = "",
    ) -> None:
        """`environment` is asked at each start: where the servers listen is known only then.

        `needless` tells, when its turn comes, that it need not run at all; `listens`: where clients find it,
        `metrics`: where its metrics are read.
        """
        self.name = name
        self.after = after
        self.once = once
        self._command = tuple(command)
        self._log = log
        self._status_folder = status_folder
        self._environment = environment
        self._needless = needless
        self._nice = nice
        self._listens = listens
        self._metrics = metrics
        self._pid: int | None = None

    def prepare(self) -> None:
        """Forget what an earlier process of that name reported."""
        status.forget(self._status_folder, self.name)

    def spawn(self) -> subprocess.Popen[bytes] | None:
        """Start the program. It dies with us at once: all of ours are made to survive that."""
        if self._needless():
            return None
        process = spawn(
            self._command,
            log=self._log,
            died=signal.SIGKILL,
            environment={**self._environment(), status.STATUS_DIR: str(self._status_folder)},
            nice=self._nice,
        )
        self._pid = process.pid
        return process

    def readiness(self) -> Readiness:
        """What this process (not one before it) last reported."""
        said = status.read(self._status_folder, self.name)
        if said is None or said.pid != self._pid:
            return Readiness("unknown")
        return Readiness(said.state, said.reason)

    def stop(self, process: subprocess.Popen[bytes] | None, deadline_s: float) -> bool:
        """Ask it to finish; what only runs once has nothing to lose and is killed."""
        if self.once and process is not None:
            kill(process)
            return True
        return super().stop(process, deadline_s)

    def listens(self) -> str:
        """Where clients find it, if they do."""
        return self._listens

    def metrics(self) -> str:
        """Where its metrics are read, if they are."""
        return self._metrics

    def log_file(self) -> Path:
        """The program's log."""
        return self._log


class Step(Unit):
    """Something done once, in its order: check a given server, migrate, make topics."""

    def __init__(
        self,
        name: str,
        work: Callable[[], str],
        *,
        after: tuple[str, ...] = (),
        listens: Callable[[], str] | None = None,
    ) -> None:
        """`work` returns what it did in a few words and raises RajadaError when it can't."""
        self.name = name
        self.after = after
        self._work = work
        self._listens = listens
        self._did = ""

    def prepare(self) -> None:
        """Do the work."""
        self._did = self._work()

    def spawn(self) -> None:
        """A step has no process."""

    def readiness(self) -> Readiness:
        """Ready as soon as the work is done."""
        return Readiness("ready", self._did)

    def listens(self) -> str:
        """Where the server that was checked listens."""
        return self._listens() if self._listens is not None else ""
