"""One unit under supervision: its life, its process, and what is done with it at a tick."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError

import structlog

from ops.embedded.process import identify, kill, tail
from ops.errors import StartFailed
from ops.supervision.lifecycle import RUNNING, UP, Life, Policy, State
from ops.supervision.run_file import UnitView
from ops.supervision.units import Unit

log = structlog.get_logger(__name__)

_ASK_EVERY_S = 0.5
_LOG_LINES = 15


class Watched:
    """A unit and where it is in its life. Times are monotonic seconds."""

    def __init__(self, unit: Unit, policy: Policy, now: float) -> None:
        self.unit = unit
        self.life = Life(since=now)
        self.error: Exception | None = None
        """Why it failed for good before it ever was up."""
        self._policy = policy
        self._process: subprocess.Popen[bytes] | None = None
        self._started = ""
        self._preparing: Future[None] | None = None
        self._turn_at = now
        self._took_s: float | None = None
        self._asked_at = 0.0

    @property
    def up(self) -> bool:
        """Whether others may build on it."""
        return self.life.state in UP

    def step(self, now: float, is_up: Callable[[str], bool]) -> None:
        """Do what is due for the unit; `is_up` tells whether another one is."""
        if self.life.may_start(now):
            if all(is_up(name) for name in self.unit.after):
                self._turn_at = now
                self._preparing = in_background(self.unit.prepare)
                self._into(State.PREPARING, now)
        elif self._preparing is not None:
            if self._preparing.done():
                self._prepared(self._preparing, now)
        elif self.life.state in RUNNING and self._process is not None:
            code = self._process.poll()
            if code is not None:
                self._ended(code, now)
            else:
                self._ask(now)

    def stop(self, now: Callable[[], float], deadline_s: float) -> bool:
        """Stop the unit; returns False when it had to be killed."""
        if self._preparing is not None:
            try:
                self._preparing.exception(deadline_s)
            except TimeoutError:
                log.warning("still_preparing", name=self.unit.name)
        if self._process is None:
            return self.unit.stop(None, deadline_s)
        self._into(State.STOPPING, now())
        by_itself = self.unit.stop(self._process, deadline_s)
        self._into(State.STOPPED, now())
        return by_itself

    def kill(self) -> None:
        """kill -9 at once; `stop` still has to be called or be under way, and reaps.

        Only sends the signal: it runs in signal handlers, where waiting for a child that is being waited for
        would never end.
        """
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def view(self, now: float, wall: float) -> UnitView:
        """The unit as it is shown; `wall` is `now` in Unix seconds."""
        running = self._process is not None and self._process.poll() is None
        file = self.unit.log_file()
        return UnitView(
            name=self.unit.name,
            state=self.life.state.value,
            since=round(wall - (now - self.life.since), 3),
            restarts=self.life.restarts,
            pid=self._process.pid if self._process is not None and running else None,
            started=self._started if running else "",
            listens=self.unit.listens() if self.up else "",
            metrics=self.unit.metrics() if running else "",
            reason=self.life.reason,
            log=str(file) if file is not None else "",
            stop_signal=int(self.unit.stop_signal),
            took_s=self._took_s,
            aside=self.unit.once,
        )

    # -- what happens
    def _prepared(self, preparing: Future[None], now: float) -> None:
        self._preparing = None
        error = preparing.exception()
        if error is None:
            try:
                self._process = self.unit.spawn()
            except OSError as refused:
                error = StartFailed(f"{self.unit.name} can't be started: {refused}")
        if error is not None:
            self._could_not_start(error, now)
        elif self._process is None:
            self._took_s = now - self._turn_at
            self._into(State.DONE, now, self.unit.readiness().reason)
        else:
            self._started = identify(self._process.pid).started
            self.life = self.life.spawned(now)
            self._asked_at = 0.0

    def _could_not_start(self, error: BaseException, now: float) -> None:
        """Before it ever was up that ends the start; later the cause may pass: a full disk, a taken port."""
        if self.life.was_ready or not isinstance(error, Exception):
            self._died(f"{type(error).__name__}: {error}", now)
            return
        self.error = error
        self._into(State.FAILED, now, str(error).splitlines()[0] if str(error) else type(error).__name__)

    def _ended(self, code: int, now: float) -> None:
        told = f"ended with code {code}" if code >= 0 else f"was ended by {_signal_name(-code)}"
        if self.unit.once:
            self._into(State.DONE if code == 0 else State.STOPPED, now, "" if code == 0 else told)
            return
        log.warning("unit_died", name=self.unit.name, how=told)
        self._died(told, now)

    def _died(self, why: str, now: float) -> None:
        self.life = self.life.died(why, now, self._policy)
        if self.life.state is State.FAILED:
            file = self.unit.log_file()
            self.error = StartFailed(
                f"{self.unit.name} {why}, {self.life.quick_deaths} times in a row"
                + (f". The end of {file}:\n{tail(file, _LOG_LINES)}" if file is not None else ".")
            )

    def _ask(self, now: float) -> None:
        if self.life.state is not State.STARTING:
            if not self.unit.reports_while_up or now - self._asked_at < _ASK_EVERY_S:
                return
            self._asked_at = now
        told = self.unit.readiness()
        if told.state == "ready":
            if self.life.state is State.STARTING:
                self._took_s = now - self._turn_at
            self._into(State.READY, now, told.reason)
        elif told.state == "waiting":
            self._into(State.WAITING if self.life.was_ready else State.STARTING, now, told.reason)
        elif self.unit.has_start_timeout and self.life.overdue(now, self._policy):
            if self._process is not None:
                kill(self._process)
            self._died(f"did not become ready within {self._policy.start_timeout_s:.0f} s", now)

    def _into(self, state: State, now: float, reason: str = "") -> None:
        self.life = self.life.into(state, now, reason)


def in_background(work: Callable[[], None]) -> Future[None]:
    """Run `work` in a thread that doesn't keep the process from ending."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return future


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
