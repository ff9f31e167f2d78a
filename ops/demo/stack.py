"""The stack under the demo, `rajada up` with stand-ins in its place: started and stopped, or found."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ops.demo.place import Place
from ops.demo.scenario import Scenario
from ops.embedded.folder import DataFolder
from ops.embedded.process import spawn, tail
from ops.endpoints import running
from ops.errors import StartFailed
from ops.progress import Progress
from ops.supervision.run_file import RunFile, read_run_file
from settings import Settings

_UP: Final = (sys.executable, "-m", "ops.cli", "up", "--with-engine", "--with-whatsapp")
_DOWN: Final = (sys.executable, "-m", "ops.cli", "down")
_POLL_S: Final = 0.05
START_S: Final = 300.0
"""The first start downloads Kafka."""
_STOP_S: Final = 120.0


def start(folder: DataFolder, place: Place, played: Scenario, progress: Progress) -> RunFile:
    """Start everything and wait until it is ready; without `place.kept` it ends when we do.

    Raises StartFailed.
    """
    environment = _environment(place, played)
    output = folder.logs / "up.log"
    output.unlink(missing_ok=True)
    process = _spawned(environment, folder, place)
    begun = time.monotonic()
    try:
        while process.poll() is None:
            run = read_run_file(folder)
            if run is not None and run.supervisor_pid == process.pid:
                progress.show(run.units)
                if run.state == "ready":
                    return run
            if time.monotonic() - begun > START_S:
                break
            time.sleep(_POLL_S)
    finally:
        progress.close()
    failed = read_run_file(folder)
    ours = failed if failed is not None and failed.supervisor_pid == process.pid else None
    if process.poll() is None:
        raise StartFailed(not_in_time(ours, folder.logs))
    raise StartFailed(
        (ours.error if ours is not None else "") or tail(output) or not_in_time(ours, folder.logs)
    )


def not_in_time(run: RunFile | None, logs: Path) -> str:
    """What to say when the patience ends: who is not there yet, and where to look."""
    missing = (
        [unit.name for unit in run.units if unit.state not in ("ready", "done")] if run is not None else []
    )
    who = f"{', '.join(missing)} did not start" if missing else "the stack was not ready"
    return (
        f"Within {START_S:.0f} s {who}: the logs are in {logs}. If the machine or the network is only "
        "slow, start it again: what was downloaded stays."
    )


def _spawned(environment: Mapping[str, str], folder: DataFolder, place: Place) -> subprocess.Popen[bytes]:
    output = folder.logs / "up.log"
    if not place.kept:
        # kill -9, since the system may send the signal several times, and a second SIGTERM means haste
        return spawn(_UP, log=output, died=signal.SIGKILL, environment=environment)
    with output.open("ab") as file:
        return subprocess.Popen(
            _UP,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )


def _environment(place: Place, played: Scenario) -> Mapping[str, str]:
    return place.environment(played.scale, played.default_window_ms, played.spacing_ms)


def found(settings: Settings) -> RunFile | None:
    """The stack that runs in the demo's folder and is ready, if one does."""
    run = running(settings)
    return run if run is not None and run.state == "ready" else None


def stop(folder: DataFolder, place: Place, played: Scenario) -> None:
    """Stop whatever runs in the demo's folder. Raises StartFailed when it does not end."""
    done = subprocess.run(
        _DOWN,
        env=_environment(place, played),
        capture_output=True,
        text=True,
        timeout=_STOP_S,
        check=False,
    )
    if done.returncode:
        raise StartFailed(f"The demo's stack in {folder.root} did not stop:\n{done.stderr.strip()}")
