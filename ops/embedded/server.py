"""What the embedded Kafka and Postgres share: the life of one server process in one folder."""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import structlog

from ops.embedded.folder import DataFolder, Lock, open_folder, read_json, write_json
from ops.embedded.ports import ports_for
from ops.embedded.process import OURSELVES, Identity, ProcessId, end_stray, identify, kill, spawn, stop, tail
from ops.errors import StartFailed

log = structlog.get_logger(__name__)

_POLL_S = 0.03
START_TIMEOUT_S = 60.0
STOP_DEADLINE_S = 20.0


class Server(ABC):
    """One server that keeps its data in a data folder and its port between starts.

    Alone: `start`, `stop`, `kill` (kill -9), `start` again on the same port, or as a `with` block. On Linux
    it ends with the thread that started it, so start it in one that lives as long as it shall.
    Under a supervisor: `claim` (quick; clients may be told the port from then on), `prepare` (may take long,
    any thread; it claims, too), `spawn` (the thread that lives longest), `answers` (quick), `stop`.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    died_signal: signal.Signals
    """What the system sends it when we die without a word."""

    def __init__(self, folder: DataFolder | Path | str) -> None:
        self.folder = folder if isinstance(folder, DataFolder) else open_folder(folder)
        self._part = self.folder.root / self.name
        self._part.mkdir(exist_ok=True)
        self._lock = Lock(
            self._part / "lock",
            f"Another process runs {self.name} in {self.folder.root} already. Stop it (`rajada down`), or "
            "use another RAJADA_HOME.",
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._keeps_port = False
        """Clients may know the port by now: it comes up on it, also after a crash, or not at all."""
        self.identity: Identity = OURSELVES

    # -- what a server says of itself
    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line that runs the server; called after `prepare`."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server works now: a real answer, not only an open port. Quick when it doesn't."""

    def _choose_port(self) -> None:
        """Choose where it shall listen, as before if that is free."""
        self._port = ports_for((self.name,), self.folder.ports)[self.name]

    @abstractmethod
    def _prepare(self) -> None:
        """Find programs, make data and configuration; everything that was done before is left alone."""

    @property
    @abstractmethod
    def listens(self) -> str:
        """host:port where clients connect."""

    def environment(self) -> dict[str, str] | None:
        """The server's environment; None = ours."""
        return None

    # -- its life
    @property
    def log_file(self) -> Path:
        """Where the server's output goes."""
        return self.folder.logs / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def claim(self) -> None:
        """Take the folder's part, end a stray of a killed run, choose the port; fine when that is done.

        Raises AlreadyRunning: another has that part of the folder.
        """
        self._lock.acquire()
        self._end_stray()
        if not self._keeps_port:
            self._choose_port()
            self._keeps_port = True

    def prepare(self) -> None:
        """Everything before the process: claim its place, find or bring programs, make files."""
        self.claim()
        self._prepare()

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process, without waiting for it."""
        self._process = spawn(
            self.command(),
            log=self.log_file,
            died=self.died_signal,
            environment=self.environment(),
            folder=Path("/"),
            identity=self.identity,
        )
        started = identify(self._process.pid)
        write_json(self._pid_file, {"pid": started.pid, "started": started.started})
        return self._process

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Run the server and wait until it answers; fine when it runs already.

        Raises StartFailed with the end of its log when it dies or doesn't answer in `timeout_s`, and what
        `prepare` raises (CannotRunHere, AlreadyRunning).
        """
        if self.pid is not None and self.answers():
            return self
        begun = time.monotonic()
        self.prepare()
        process = self.spawn()
        while not self.answers():
            if process.poll() is not None:
                raise StartFailed(self.failure(f"ended with code {process.returncode} before it answered"))
            if time.monotonic() - begun > timeout_s:
                self.kill()
                raise StartFailed(self.failure(f"did not answer within {timeout_s:.0f} s"))
            time.sleep(_POLL_S)
        took_s = round(time.monotonic() - begun, 2)
        log.info("server_ready", server=self.name, listens=self.listens, took_s=took_s)
        return self

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> bool:
        """Stop it in its own way, then by force; returns False when force was needed."""
        by_itself = True
        if self._process is not None:
            by_itself = stop(self._process, self.stop_signal, deadline_s)
        self._keeps_port = False
        self._pid_file.unlink(missing_ok=True)
        self._lock.release()
        return by_itself

    def kill(self) -> None:
        """kill -9, as a crash would; `start` brings it back on the same port with its data."""
        if self._process is not None:
            kill(self._process)

    def failure(self, what: str) -> str:
        """A message that tells what happened and shows the end of the log."""
        return f"{self.name} {what}. The end of {self.log_file}:\n{tail(self.log_file)}"

    @property
    def _pid_file(self) -> Path:
        return self._part / "pid.json"

    def _end_stray(self) -> None:
        found = read_json(self._pid_file)
        pid, started = found.get("pid"), found.get("started")
        if not isinstance(pid, int) or not isinstance(started, str):
            return
        if self._process is not None and self._process.pid == pid and self._process.poll() is None:
            return
        if end_stray(ProcessId(pid, started), self.stop_signal, patience_s=5.0):
            log.warning("stray_ended", server=self.name, pid=pid)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
