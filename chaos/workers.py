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
from time import monotonic, time
from typing import NamedTuple, Protocol

ROOT = Path(__file__).parent.parent
EXPECTED_EXITS = (0, -signal.SIGKILL, -signal.SIGTERM)
ENDED_ITSELF = 70


class Broker(Protocol):
    """A broker that may be hurt."""

    def kill(self) -> None:
        """kill -9."""

    def start(self) -> object:
        """Bring it back with its data, and wait until it answers."""


class Injury(NamedTuple):
    """Something that was done, and when (seconds since 1970)."""

    at: float
    what: str
    worker: int | None


@dataclass
class Worker:
    """One worker process."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    static: str | None = None
    """Its name, if it is a static member of the group."""
    wake_at: float | None = None
    """When a stopped process goes on (monotonic seconds); None: it isn't stopped."""
    was_stopped: bool = False
    saw_outage: bool = False
    """The broker was away while it ran."""
    replaced: bool = False
    """Another one was started in its place."""

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
    module: str = "chaos.app"
    static: bool = False
    broker: Broker | None = None
    started_at: float = field(default_factory=time)
    all: list[Worker] = field(default_factory=list)
    injuries: list[Injury] = field(default_factory=list)

    def note(self, what: str, worker: int | None = None) -> None:
        """Remember what was done."""
        self.injuries.append(Injury(time(), what, worker))

    def told(self) -> list[str]:
        """What was done, with the second of the run."""
        return [
            f"{at - self.started_at:.1f} {what} {'' if worker is None else worker}".rstrip()
            for at, what, worker in self.injuries
        ]

    @property
    def running(self) -> list[Worker]:
        """Those that are alive and not stopped."""
        return [worker for worker in self.all if worker.running]

    def start(self, static: str | None = None, **more: str) -> Worker:
        """Start one more; `static`: its name as a static member; `more`: settings of its own."""
        number = len(self.all)
        log = self.folder / f"worker-{number}.log"
        own = {"CHAOS_WORKER": str(number)}
        static = static or (f"static-{number}" if self.static else None)
        if static is not None:
            own["CHAOS_STATIC"] = static
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "faust", "-A", self.module, "worker", "-l", "info", "--without-web"],
                cwd=ROOT,
                env={**os.environ, **self.environment, **own, **more},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.all.append(Worker(number, process, log, static))
        self.note("join", number)
        return self.all[-1]

    def hurt(self, dice: random.Random) -> None:
        """Do one random thing: a join, kill -9, SIGTERM, or a stop of up to 8 seconds."""
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
        self.note(what, worker.number)

    def outage(self) -> None:
        """Kill the broker and bring it back."""
        assert self.broker is not None
        for worker in self.all:
            worker.saw_outage = worker.saw_outage or worker.process.poll() is None
        self.note("broker kill")
        self.broker.kill()
        self.broker.start()
        self.note("broker back")

    def supervise(self) -> None:
        """Start another one for each that has ended itself, as a supervisor does."""
        for worker in self.all:
            code = worker.process.poll()
            if worker.replaced or code is None or code in EXPECTED_EXITS:
                continue
            worker.replaced = True
            self.note(f"ended {code}", worker.number)
            self.start(static=worker.static)

    def wake(self, everybody: bool = False) -> bool:
        """Let those go on whose time has come; True while anybody is still stopped."""
        stopped = [worker for worker in self.all if worker.wake_at is not None]
        for worker in stopped:
            if everybody or monotonic() >= (worker.wake_at or 0):
                worker.wake_at = None
                if worker.process.poll() is None:
                    worker.process.send_signal(signal.SIGCONT)
                self.note("cont", worker.number)
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
                self.note("killed, it did not stop", worker.number)

    def unexpected_exits(self) -> dict[int, int]:
        """Exit codes that nothing done here explains.

        A worker that was stopped may end itself; one that met an outage may end in any way; one whose record
        the broker didn't take within 0.8 of the session has to end.
        """
        found = {}
        for worker in self.all:
            code = worker.process.poll()
            if code is None or code in EXPECTED_EXITS or worker.saw_outage:
                continue
            undelivered = b"a record wasn't delivered" in worker.log.read_bytes()
            if not (code == ENDED_ITSELF and (worker.was_stopped or undelivered)):
                found[worker.number] = code
        return found
