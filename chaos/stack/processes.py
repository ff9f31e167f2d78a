"""The processes of one installation, a folder each: started, hurt, and started again when they die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import status
from ops.embedded.process import spawn

ROOT: Final = Path(__file__).parents[2]
_RAJADA: Final = (sys.executable, "-m", "ops.cli")
_PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "relay": (*_RAJADA, "relay"),
    "worker": (sys.executable, "-m", "faust", "-A", "streams", "worker", "--without-web"),
    "sink": (*_RAJADA, "sink"),
    "delays": (*_RAJADA, "delays"),
    "web": (*_RAJADA, "web"),
}
READY_S: Final = 180.0
"""A busy machine is no failure."""
STOP_S: Final = 25.0
AGAIN_S: Final = 0.5
"""So long after its death a process is started again, as a supervisor does; longer the oftener it dies."""
AGAIN_MOST_S: Final = 5.0
WELL_S: Final = 20.0
"""A process that ran for so long has not died in a row."""


@dataclass(slots=True)
class Member:
    """One process, over all its lives."""

    name: str
    folder: Path
    wanted: bool = True
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    told_to: int | None = None
    """The signal that we sent last, which explains an exit."""
    started_at: float = 0.0
    again_at: float = 0.0
    deaths: int = 0
    exits: Counter[str] = field(default_factory=Counter)

    @property
    def program(self) -> str:
        """What it runs: a worker's name has a number."""
        return self.name.partition("-")[0]

    @property
    def alive(self) -> bool:
        """Whether it runs, frozen or not."""
        return self.process is not None and self.process.poll() is None

    @property
    def ready(self) -> bool:
        """Whether it says so itself."""
        said = status.read(self.folder / "status", self.program)
        return (
            said is not None and self.process is not None
            and said.state == "ready" and said.pid == self.process.pid
        )  # fmt: skip


class Processes:
    """All of them; everything here is called from one thread, which must outlive them."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self.environment = dict(environment)
        self.own: dict[str, dict[str, str]] = {}
        """What one of them alone is told, by name."""
        self.members: dict[str, Member] = {}

    def start(self, *names: str) -> None:
        """Start these, or let them be started again; doesn't wait."""
        for name in names:
            member = self.members.setdefault(name, Member(name, self._folder / name))
            member.wanted, member.again_at = True, 0.0
            if not member.alive:
                self._spawn(member)

    def wait_ready(self, *names: str, meanwhile: Callable[[], object] = int) -> list[str]:
        """Wait until these say that they are ready, starting again what dies; those that didn't in time."""
        deadline = time.monotonic() + READY_S
        while waiting := [name for name in names if not self.members[name].ready]:
            if time.monotonic() > deadline:
                return waiting
            meanwhile()
            self.supervise()
            time.sleep(0.05)
        return []

    def supervise(self) -> None:
        """Start again what has ended and is wanted."""
        now = time.monotonic()
        for member in self.members.values():
            if member.process is not None and member.process.poll() is not None:
                self._note_end(member, now)
            if member.process is None and member.wanted and now >= member.again_at:
                self._spawn(member)

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Send a signal to a process; False: it doesn't run."""
        member = self.members[name]
        if member.process is None or not member.alive:
            return False
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            member.told_to = number
        member.process.send_signal(number)
        member.frozen = number == signal.SIGSTOP or (member.frozen and number != signal.SIGCONT)
        return True

    def send_away(self, name: str) -> None:
        """Ask one to end gracefully, and keep it away; doesn't wait."""
        self.members[name].wanted = False
        self.signal(name, signal.SIGCONT)
        self.signal(name, signal.SIGTERM)

    def leave(self, *names: str, grace_s: float = STOP_S) -> None:
        """End these gracefully, then by force, and keep them away."""
        going = [self.members[name] for name in names if name in self.members]
        for member in going:
            self.send_away(member.name)
        deadline = time.monotonic() + grace_s
        for member in going:
            if member.process is None:
                continue
            try:
                member.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.exits["killed, it did not stop"] += 1
                member.process.kill()
                member.process.wait()
            self._note_end(member, time.monotonic())

    def stop(self) -> None:
        """End all."""
        self.leave(*self.members)

    def rajada(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command of `rajada` with the settings of these processes, to its end."""
        return subprocess.run(
            [*_RAJADA, *arguments],
            env={**os.environ, **self.environment, "RAJADA_HOME": str(self._folder / "operator")},
            capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, check=False,
        )  # fmt: skip

    def told(self, name: str) -> str:
        """What a process said when it was ready last: where it listens, if it does. Empty: nothing."""
        said = status.read(self.members[name].folder / "status", self.members[name].program)
        return said.reason if said is not None and said.state == "ready" else ""

    def log(self, name: str) -> Path:
        """The log of a process, of all its lives."""
        return self._folder / name / "log"

    def tail(self, name: str) -> str:
        """The end of a process' log."""
        try:
            return self.log(name).read_text(errors="replace")[-2_500:]
        except OSError:
            return ""

    def _spawn(self, member: Member) -> None:
        member.folder.mkdir(parents=True, exist_ok=True)
        status.forget(member.folder / "status", member.program)
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONFAULTHANDLER": "1",  # SIGABRT makes it tell where it hangs
            "RAJADA_HOME": str(member.folder),
            "RAJADA_STATUS_DIR": str(member.folder / "status"),
            **self.own.get(member.name, {}),
        }
        command = _PROGRAMS[member.program]
        member.process = spawn(command, log=self.log(member.name), environment=environment, folder=ROOT)
        member.told_to, member.frozen, member.started_at = None, False, time.monotonic()

    def _note_end(self, member: Member, now: float) -> None:
        if member.process is None:
            return
        code = member.process.returncode
        why = signal.Signals(member.told_to).name if member.told_to is not None else "by itself"
        member.exits[f"{code} ({why})"] += 1
        member.deaths = 0 if now - member.started_at > WELL_S else member.deaths + 1
        member.again_at = now + min(AGAIN_S * max(1, member.deaths), AGAIN_MOST_S)
        member.process, member.frozen = None, False
