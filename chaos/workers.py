"""Starting and hurting the workers of a chaos run. Only processes started here are ever signalled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parent.parent
EXPECTED_EXITS = (0, -signal.SIGKILL, -signal.SIGTERM)


@dataclass
class Worker:
    """One worker process."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    wake_at: float | None = None
    """When a stopped process goes on (monotonic seconds); None: it isn't stopped."""
    was_stopped: bool = False

    @property
    def running(self) -> bool:
        """Alive and not stopped."""
        return self.process.poll() is None and self.wake_at is None

    @property
    def ready(self) -> bool:
        """It has said that it works."""
        return self.log.exists() and b"Worker ready" in self.log.read_bytes()


@dataclass
class Workers:
    """All workers of one run, and what was done to them."""

    folder: Path
    environment: Mapping[str, str]
    started_at: float = field(default_factory=monotonic)
    all: list[Worker] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        """Remember what was done, with the second of the run."""
        self.events.append(f"{monotonic() - self.started_at:.1f} {what}")

    @property
    def running(self) -> list[Worker]:
        """Those that are alive and not stopped."""
        return [worker for worker in self.all if worker.running]

    def start(self) -> Worker:
        """Start one more."""
        number = len(self.all)
        log = self.folder / f"worker-{number}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "faust", "-A", "chaos.app", "worker", "-l", "info", "--without-web"],
                cwd=ROOT,
                env={**os.environ, **self.environment, "CHAOS_WORKER": str(number)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.all.append(Worker(number, process, log))
        self.note(f"join {number}")
        return self.all[-1]

    def hurt(self, dice: random.Random) -> None:
        """Do one random thing: a join, a kill -9, a SIGTERM, or a stop of up to 8 seconds."""
        running = self.running
        choices = ["join"] * 3 if len(running) < 3 else []
        if len(running) >= 2:
            choices += ["kill", "term", "stop", "stop"]
        what = dice.choice(choices)
        if what == "join":
            self.start()
            return
        worker = dice.choice(running)
        number = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}[what]
        if what == "stop":
            worker.wake_at = monotonic() + dice.choice([dice.uniform(0.5, 4), 8])
            worker.was_stopped = True
        worker.process.send_signal(number)
        self.note(f"{what} {worker.number}")

    def wake(self, everybody: bool = False) -> bool:
        """Let those go on whose time has come; True while anybody is still stopped."""
        stopped = [worker for worker in self.all if worker.wake_at is not None]
        for worker in stopped:
            if everybody or monotonic() >= (worker.wake_at or 0):
                worker.wake_at = None
                if worker.process.poll() is None:
                    worker.process.send_signal(signal.SIGCONT)
                self.note(f"cont {worker.number}")
        return any(worker.wake_at is not None for worker in self.all)

    def finish(self, timeout: float) -> None:
        """End all gracefully, then by force."""
        self.wake(everybody=True)
        for worker in self.all:
            if worker.process.poll() is None:
                worker.process.terminate()
        deadline = monotonic() + timeout
        for worker in self.all:
            try:
                worker.process.wait(max(0.1, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
                self.note(f"killed {worker.number}: it did not stop")

    def unexpected_exits(self) -> dict[int, int]:
        """Exit codes that nothing done here explains; a worker that was stopped may end itself (70)."""
        found = {}
        for worker in self.all:
            code = worker.process.poll()
            allowed = (*EXPECTED_EXITS, 70) if worker.was_stopped else EXPECTED_EXITS
            if code is not None and code not in allowed:
                found[worker.number] = code
        return found
