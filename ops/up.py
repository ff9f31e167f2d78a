"""One `rajada up`: hold the data folder, clear what an earlier one left, run the stack, stop it in order."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec
import structlog

from logs import configure_logging
from ops.embedded.folder import DataFolder, Lock, open_folder
from ops.embedded.process import identify
from ops.errors import exit_code_of
from ops.progress import Progress
from ops.stack import Stack
from ops.supervision.run_file import (
    RunFile,
    StackState,
    UnitView,
    clean_up,
    read_run_file,
    write_run_file,
)
from ops.supervisor import Supervisor
from settings import Settings

log = structlog.get_logger(__name__)


class Up:
    """The run of one stack in one data folder."""

    def __init__(
        self,
        settings: Settings,
        progress: Progress,
        *,
        servers_only: bool = False,
        with_engine: bool = False,
        with_whatsapp: bool = False,
    ) -> None:
        self._settings = settings
        self._progress = progress
        self._servers_only = servers_only
        self._with_engine = with_engine
        self._with_whatsapp = with_whatsapp
        self._begun = time.monotonic()
        self._folder: DataFolder = open_folder(settings.home)
        me = identify(os.getpid())
        self._run = RunFile(me.pid, me.started, "starting", time.time())
        self._stack: Stack | None = None

    def run(self) -> None:
        """Run until SIGINT, SIGTERM or SIGHUP; a second one kills what still stops.

        Raises AlreadyRunning, FolderRefused, CannotRunHere, Unreachable, StartFailed, or what a migration
        or the making of topics raised.
        """
        folder = self._folder
        with (
            Lock(folder.lock, _taken(folder)),
            _logging_to(self._folder.logs / "supervisor.log", self._settings),
        ):
            ended = clean_up(self._folder)
            if ended:
                self._progress.say(f"Ended what a killed run had left: {', '.join(ended)}.")
            self._note("starting")
            try:
                self._supervise()
            except Exception as error:
                self._note("failed", error=error)
                raise
            self._folder.run_file.unlink(missing_ok=True)

    def _supervise(self) -> None:
        self._stack = stack = Stack(
            self._settings,
            self._folder,
            servers_only=self._servers_only,
            with_engine=self._with_engine,
            with_whatsapp=self._with_whatsapp,
        )
        supervisor = Supervisor(
            stack.units,
            self._folder,
            stop_deadline_s=self._settings.stop_deadline_s,
            log_max_bytes=self._settings.log_file_max_mb << 20,
            on_change=self._changed,
            on_trouble=self._troubled,
        )

        def asked(number: int, frame: FrameType | None) -> None:
            supervisor.ask_to_stop()

        stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup keeps us when the terminal closes
            stops.append(signal.SIGHUP)
        before = {number: signal.signal(number, asked) for number in stops}
        try:
            if supervisor.run_until_up():
                self._ready()
                supervisor.run()
            self._note("stopping")
        finally:
            killed = supervisor.stop()
            for number, handler in before.items():
                signal.signal(number, handler)
            self._progress.close()
            self._progress.say(f"Stopped; had to kill {', '.join(killed)}." if killed else "Stopped.")

    def _ready(self) -> None:
        took = round(time.monotonic() - self._begun, 2)
        hint = self._stack.hint if self._stack is not None else ""
        self._run = msgspec.structs.replace(self._run, ready_after_s=took, hint=hint)
        self._note("ready")
        log.info("stack_ready", took_s=took)
        self._progress.ready(self._run, self._folder.root)

    def _changed(self, views: Sequence[UnitView]) -> None:
        self._run = msgspec.structs.replace(self._run, units=tuple(views))
        self._note(self._run.state)
        self._progress.show(views)

    def _troubled(self, trouble: str) -> None:
        self._progress.say(trouble or "There is room on the disk again.")

    def _note(self, state: StackState, error: Exception | None = None) -> None:
        stack = self._stack
        run = self._run
        self._run = msgspec.structs.replace(
            run,
            state=state,
            # once known they stay: clients meet a restarted server where it was
            kafka=run.kafka or (stack.kafka if stack is not None and self._is_up("kafka") else ""),
            database_url=run.database_url
            or (stack.database_url if stack is not None and self._is_up("migrations") else ""),
            error=str(error) if error is not None else "",
            exit_code=exit_code_of(error) if error is not None else 0,
        )
        try:
            write_run_file(self._folder, self._run)
        except OSError as failed:
            # A full disk must not end what still runs, and what died is tried again when there is space.
            log.error("run_file_not_written", error=failed.strerror, folder=str(self._folder.root))

    def _is_up(self, name: str) -> bool:
        return any(view.name == name and view.state in {"ready", "done"} for view in self._run.units)


def _taken(folder: DataFolder) -> str:
    run = read_run_file(folder)
    who = f" (process {run.supervisor_pid})" if run is not None else ""
    return (
        f"Rajada runs in {folder.root} already{who}. `rajada status` shows it, `rajada down` stops it; set "
        "RAJADA_HOME to run a second one beside it."
    )


@contextmanager
def _logging_to(file: Path, settings: Settings) -> Iterator[None]:
    """The supervisor's own log lines go to a file: the terminal shows the checklist."""
    configure_logging(settings)
    with file.open("a", buffering=1) as stream:
        moved = [
            (handler, handler.setStream(stream))
            for handler in logging.getLogger().handlers
            if isinstance(handler, logging.StreamHandler)
        ]
        try:
            yield
        finally:
            for handler, earlier in moved:
                handler.setStream(earlier or sys.stderr)
