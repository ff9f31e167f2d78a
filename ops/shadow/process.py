"""`rajada shadow run`: the worker in shadow mode under a supervisor, and a relay where nobody publishes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from db.pool import conninfo_for
from db.replication import slot_status
from ops.asking import asking
from ops.embedded.folder import DataFolder, Lock, open_folder
from ops.supervision.run_file import UnitView
from ops.supervision.units import Program, Unit
from ops.supervisor import Supervisor
from settings import Settings

FOLDER: Final = "shadow"
"""Below the data folder: what a shadow keeps on this machine, its logs among it."""
LEAST_FREE: Final = 256 << 20
"""Bytes: the state of open windows and some logs."""

Say = Callable[[str], None]


def folder_of(settings: Settings) -> Path:
    """Where a shadow of this installation keeps its state and logs."""
    return settings.home / FOLDER


def somebody_publishes(url: str, settings: Settings) -> bool:
    """Whether the event log is being published: the installation's slot has a reader. Raises OpsError."""
    import psycopg

    if settings.publisher == "debezium":
        return True
    with asking(url), psycopg.connect(conninfo_for(url, "shadow"), autocommit=True) as connection:
        found = slot_status(connection, settings.slot)
    return found is not None and found.active


class Shadow:
    """One run of a shadow.

    Args:
        settings: of the installation.
        bootstrap: Kafka's host:port list.
        url: the CRM's database.
        relay: run the installation's relay, too.
        say: told of every change in a line.
    """

    def __init__(self, settings: Settings, bootstrap: str, url: str, *, relay: bool, say: Say) -> None:
        self._settings = settings
        self._say = say
        self._folder = open_folder(folder_of(settings), least_free=LEAST_FREE)
        self._servers = {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "DATABASE_URL": url}
        level = settings.log_level.lower()
        faust = [sys.executable, "-m", "faust", "-A", "streams", "worker", "--without-web", "-l", level]
        self._units: list[Unit] = []
        if relay:
            self._units.append(
                self._program("relay", [sys.executable, "-m", "ops.cli", "relay"], {"RAJADA_SHADOW": "false"})
            )
        self._units.append(self._program("shadow", faust, {"RAJADA_SHADOW": "true"}))
        self._states: dict[str, str] = {}

    def run(self) -> None:
        """Until SIGTERM, SIGINT or SIGHUP. Raises AlreadyRunning, StartFailed."""
        folder = self._folder
        with Lock(folder.lock, f"A shadow runs in {folder.root} already."):
            self._supervise(folder)

    def _supervise(self, folder: DataFolder) -> None:
        supervisor = Supervisor(
            self._units,
            folder,
            stop_deadline_s=self._settings.stop_deadline_s,
            log_max_bytes=self._settings.log_file_max_mb << 20,
            on_change=self._changed,
            on_trouble=lambda trouble: self._say(trouble or "There is room on the disk again."),
        )

        def asked(number: int, frame: FrameType | None) -> None:
            supervisor.ask_to_stop()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, asked)
        try:
            if supervisor.run_until_up():
                supervisor.run()
        finally:
            supervisor.stop()

    def _changed(self, views: Sequence[UnitView]) -> None:
        for view in views:
            told = f"{view.state}{f': {view.reason}' if view.reason else ''}"
            if self._states.get(view.name) != told:
                self._states[view.name] = told
                self._say(f"{view.name} {told}")

    def _program(self, name: str, command: list[str], more: Mapping[str, str]) -> Program:
        environment = {**os.environ, **self._servers, "RAJADA_HOME": str(self._folder.root), **more}
        if name != "shadow":
            environment["RAJADA_METRICS_PORT"] = "0"  # the one that is set is the shadow's
        return Program(
            name,
            command,
            log=self._folder.logs / f"{name}.log",
            status_folder=self._folder.status,
            environment=lambda: environment,
        )
