"""Runs the units of a stack as one: starts them in their order, restarts what dies, stops all in reverse.

One loop in one thread: the system ends our children when the thread that started them ends, so it is also
the thread that lives longest. What takes long (downloads, initdb, migrations) runs in threads beside it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence

import structlog

from ops.embedded.folder import DataFolder, shortage
from ops.supervision.lifecycle import Policy
from ops.supervision.log_files import bound
from ops.supervision.run_file import UnitView
from ops.supervision.units import Unit
from ops.supervision.watched import Watched

log = structlog.get_logger(__name__)

_TICK_S = 0.05
_CALM_TICK_S = 0.2
_LOOK_AT_DISK_S = 2.0

OnChange = Callable[[Sequence[UnitView]], None]
OnTrouble = Callable[[str], None]


class Supervisor:
    """Supervises units until a stop is asked for; `on_change` hears of every change of what they show."""

    def __init__(
        self,
        units: Sequence[Unit],
        folder: DataFolder,
        *,
        policy: Policy | None = None,
        stop_deadline_s: float = 20.0,
        log_max_bytes: int = 10 << 20,
        on_change: OnChange = lambda views: None,
        on_trouble: OnTrouble = lambda trouble: None,
    ) -> None:
        """The units' order is that of starting; `Unit.after` names what must be up before.

        `on_trouble` hears when the disk runs full, in words, and when there is room again (an empty text).
        """
        now = time.monotonic()
        self._watched = {unit.name: Watched(unit, policy or Policy(), now) for unit in units}
        self._folder = folder
        self._stop_deadline_s = stop_deadline_s
        self._log_max_bytes = log_max_bytes
        self._on_change = on_change
        self._on_trouble = on_trouble
        self._trouble = ""
        self._looked_at = now
        self._shown: tuple[UnitView, ...] = ()
        self._stop_asked = threading.Event()

    @property
    def views(self) -> tuple[UnitView, ...]:
        """All units as they are now, in their order."""
        now, wall = time.monotonic(), time.time()
        return tuple(each.view(now, wall) for each in self._watched.values())

    @property
    def all_up(self) -> bool:
        """Whether everything that is meant to stay is ready."""
        return all(each.up for each in self._watched.values() if not each.unit.once)

    def ask_to_stop(self) -> None:
        """Make `run` and `run_until_up` return soon; asked again, nothing is waited for (kill -9).

        Safe in a signal handler.
        """
        if self._stop_asked.is_set():
            for each in self._watched.values():
                each.kill()
        self._stop_asked.set()

    def run_until_up(self) -> bool:
        """Start everything; True when all is ready, False when a stop was asked for before.

        Raises what a step or a preparation raised, or StartFailed for a process that dies again and again.
        """
        while not self._stop_asked.is_set():
            self._tick()
            for each in self._watched.values():
                if each.error is not None:
                    raise each.error
            if self.all_up:
                return True
            self._stop_asked.wait(_TICK_S)
        return False

    def run(self) -> None:
        """Keep everything up until a stop is asked for; nothing that dies now ends the stack."""
        while not self._stop_asked.is_set():
            self._tick()
            self._stop_asked.wait(_CALM_TICK_S if self.all_up else _TICK_S)

    def stop(self) -> list[str]:
        """Stop everything, last started first; returns the names of what had to be killed."""
        self._stop_asked.set()
        killed = []
        for each in reversed(self._watched.values()):
            if not each.stop(time.monotonic, self._stop_deadline_s):
                killed.append(each.unit.name)
                log.warning("killed", name=each.unit.name, after_s=self._stop_deadline_s)
            self._tell()
        return killed

    def _tick(self) -> None:
        now = time.monotonic()
        for each in self._watched.values():
            each.step(now, self._is_up)
        self._tell()
        if now - self._looked_at > _LOOK_AT_DISK_S:
            self._looked_at = now
            bound(self._folder.logs, self._log_max_bytes)
            self._look_at_room()

    def _look_at_room(self) -> None:
        free = shutil.disk_usage(self._folder.root).free
        trouble = shortage(free, self._folder.root)
        if bool(trouble) != bool(self._trouble):
            if trouble:
                log.error("disk_full", free_mb=free >> 20, folder=str(self._folder.root))
            else:
                log.info("disk_has_room_again", free_mb=free >> 20)
            self._on_trouble(trouble)
        self._trouble = trouble

    def _is_up(self, name: str) -> bool:
        return self._watched[name].up

    def _tell(self) -> None:
        views = self.views
        # `since` is computed from two clocks and trembles in its last digits
        if [_essence(view) for view in views] != [_essence(view) for view in self._shown]:
            self._shown = views
            self._on_change(views)


def _essence(view: UnitView) -> tuple[object, ...]:
    return (view.name, view.state, view.restarts, view.pid, view.listens, view.reason)
