"""Child processes that don't outlive us: in their own group, tied to our life, known by pid and start.

A pid alone names another process after a while; with its start time it names one process only. So what a
run file says can be killed safely at the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom a program is run: `uid`/`gid` None = as ourselves; `prefix` is put before the command."""

    uid: int | None = None
    gid: int | None = None
    prefix: tuple[str, ...] = ()


OURSELVES = Identity()


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process for good: its pid and when it started, in the system's own words."""

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie doesn't)."""
        return bool(self.started) and _start_of(self.pid) == self.started


def identify(pid: int) -> ProcessId:
    """The lasting name of the process `pid`; one that is gone gets an empty start and is never alive."""
    return ProcessId(pid, _start_of(pid))


def _start_of(pid: int) -> str:
    """Start time of a live process, empty for none or a zombie."""
    if Path("/proc/self/stat").exists():
        try:
            # the command's name may hold spaces and brackets, so fields are counted after the last bracket
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]
    told = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return "" if told.startswith("Z") else told.partition(" ")[2].strip()


def _dies_with_us(died: signal.Signals, nice: int) -> Callable[[], None] | None:
    """What the child does between fork and exec: nothing but system calls that were looked up before."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    us = os.getpid()
    number = int(died)

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != us:  # we died before the tie held
            os._exit(1)
        if nice:
            os.nice(nice)

    return tie


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    died: signal.Signals = signal.SIGKILL,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    identity: Identity = OURSELVES,
    nice: int = 0,
) -> subprocess.Popen[bytes]:
    """Start `command` with its output appended to `log`, in a session of its own.

    `died` is the signal the system sends it when the *thread* that called this ends (Linux), so call it from
    the thread that lives longest. The child doesn't get our terminal's Ctrl-C: we stop it in our order.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [*identity.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=None if environment is None else dict(environment),
            cwd=folder,
            user=identity.uid,
            group=identity.gid,
            extra_groups=None if identity.uid is None else [],
            preexec_fn=_dies_with_us(died, nice),
        )


def stop(process: subprocess.Popen[bytes], gently: signal.Signals, deadline_s: float) -> bool:
    """Ask a child to end, wait, then kill its group; returns whether it ended by itself."""
    if process.poll() is not None:
        return True
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(gently)
    try:
        process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        kill(process)
        return False
    return True


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 a child and what it started in its group, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_stray(process: ProcessId, gently: signal.Signals, patience_s: float) -> bool:
    """End a process that isn't our child (left by a run that was killed); returns whether it was alive.

    It gets `gently`, `patience_s` seconds, then kill -9 for its group.
    """
    if not process.alive:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, gently)
    if not _gone(process, patience_s):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        _gone(process, 5.0)
    return True


def _gone(process: ProcessId, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while process.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log file, for an error message; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
