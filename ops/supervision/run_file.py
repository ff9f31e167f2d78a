"""The run file: what runs in a data folder now, for `rajada status`, `rajada down` and the next start.

It is written on every change and removed by a clean stop. One that is there although its supervisor is gone
tells of a kill -9 or a power failure: the processes it names are ended before anything is started.
"""

from __future__ import annotations

import errno
import signal
from typing import Final, Literal

import msgspec
import structlog

from ops.embedded.folder import DataFolder
from ops.embedded.process import ProcessId, end_stray

log = structlog.get_logger(__name__)

_ROUNDED_TO: Final = 8 * 1024
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

StackState = Literal["starting", "ready", "stopping", "failed"]


class UnitView(msgspec.Struct, frozen=True):
    """One supervised thing as it is shown; times in Unix seconds."""

    name: str
    state: str
    since: float
    restarts: int = 0
    pid: int | None = None
    started: str = ""
    """With the pid the lasting name of its process."""
    listens: str = ""
    metrics: str = ""
    """Where its metrics are read, and beside them its probes."""
    reason: str = ""
    log: str = ""
    stop_signal: int = int(signal.SIGTERM)
    took_s: float | None = None
    """How long it took from its turn to ready, when it is."""
    aside: bool = False
    """Whether nothing waits for it."""


class RunFile(msgspec.Struct, frozen=True):
    """Everything that runs, and where it listens."""

    supervisor_pid: int
    supervisor_started: str
    state: StackState
    started_at: float
    units: tuple[UnitView, ...] = ()
    kafka: str = ""
    database_url: str = ""
    ready_after_s: float | None = None
    hint: str = ""
    """What whoever started it should know."""
    error: str = ""
    exit_code: int = 0

    @property
    def supervisor(self) -> ProcessId:
        """The process that supervises."""
        return ProcessId(self.supervisor_pid, self.supervisor_started)


def write_run_file(folder: DataFolder, run: RunFile) -> None:
    """Replace the run file in one step. Only its owner may read it: a given database's URL is in it.

    On a full disk it is overwritten in its place, for which its size is rounded up: then above all it must
    tell what runs no more. Raises OSError when even that fails.
    """
    content = msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n"
    content += b" " * (-len(content) % _ROUNDED_TO)
    draft = folder.run_file.with_name(".run.json.new")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(0o600)
        draft.write_bytes(content)
        draft.replace(folder.run_file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        if error.errno not in _NO_ROOM:
            raise
        with folder.run_file.open("r+b") as file:
            file.write(content)
            file.truncate()


def read_run_file(folder: DataFolder) -> RunFile | None:
    """The run file; None when there is none or it isn't readable."""
    try:
        return msgspec.json.decode(folder.run_file.read_bytes(), type=RunFile)
    except (OSError, msgspec.DecodeError):
        return None


def strays_of(run: RunFile) -> list[tuple[UnitView, ProcessId]]:
    """Processes of a run that still live, in the order in which they are to be ended: last started first."""
    named = [
        (unit, ProcessId(unit.pid, unit.started)) for unit in reversed(run.units) if unit.pid is not None
    ]
    return [(unit, process) for unit, process in named if process.alive]


def clean_up(folder: DataFolder, patience_s: float = 5.0) -> list[str]:
    """End what a killed supervisor left and drop its run file; returns the names of what was ended.

    The caller holds the folder's lock, so no supervisor lives.
    """
    run = read_run_file(folder)
    ended = []
    for unit, process in strays_of(run) if run is not None else []:
        if end_stray(process, signal.Signals(unit.stop_signal), patience_s):
            ended.append(unit.name)
            log.warning("stray_ended", name=unit.name, pid=process.pid)
    folder.run_file.unlink(missing_ok=True)
    return ended
