"""`rajada up --detach`: the supervisor in a session of its own, watched by its run file until it is ready."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from ops.embedded.folder import open_folder
from ops.embedded.process import tail
from ops.errors import AlreadyRunning, OpsError, StartFailed
from ops.progress import Progress
from ops.supervision.run_file import RunFile, read_run_file
from settings import Settings

_POLL_S = 0.1


def start_detached(
    settings: Settings, progress: Progress, *, options: Sequence[str], timeout_s: float
) -> None:
    """Start the supervisor behind and show its progress; returns when all is ready. `options` are of `up`.

    Raises AlreadyRunning, or StartFailed with what the supervisor said; when only the time (seconds) ran out
    it goes on.
    """
    folder = open_folder(settings.home)
    output = folder.logs / "up.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "ops.cli", "up", *options],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    begun = time.monotonic()
    try:
        while process.poll() is None:
            run = read_run_file(folder)
            if run is not None and run.supervisor_pid == process.pid:
                progress.show(run.units)
                if run.state == "ready":
                    progress.ready(run, folder.root)
                    return
            if time.monotonic() - begun > timeout_s:
                raise StartFailed(
                    f"Not everything is ready after {timeout_s:.0f} s: {_missing(run)}. It goes on behind: "
                    "`rajada status` shows it, `rajada down` stops it."
                )
            time.sleep(_POLL_S)
    finally:
        progress.close()
    raise _failure(process.returncode, read_run_file(folder), process.pid, tail(output))


def _missing(run: RunFile | None) -> str:
    units = run.units if run is not None else ()
    late = [
        f"{unit.name} is {unit.state}" + (f" ({unit.reason})" if unit.reason else "")
        for unit in units
        if unit.state not in {"ready", "done"}
    ]
    return ", ".join(late) or "nothing was started yet"


def _failure(code: int, run: RunFile | None, pid: int, told: str) -> OpsError:
    """What the supervisor failed with, with the exit code it had."""
    if code == AlreadyRunning.exit_code:
        return AlreadyRunning(told)
    message = run.error if run is not None and run.supervisor_pid == pid and run.error else told
    return StartFailed(message or f"The supervisor ended with code {code} before all was ready.")
