"""The reconciler's own thread, with an event loop and a pool of its own.

It stands apart from Faust's loop: the schedule goes on while Kafka is away, and neither a long batch of
records nor a rebalance holds a run up.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Iterator
from typing import Final
from uuid import UUID

import structlog

import status
from settings import Settings
from streams.reconcile.clock import Clock
from streams.reconcile.workshop import NAME, options_of, schedule_of, workshop
from streams.transport import end_process
from telemetry import pulse
from telemetry.readings import Reading

log = structlog.get_logger(__name__)

COUNTERS_EVERY_S: Final = 5.0
LOOP: Final = "schedule"
"""The name of its loop among those of the process (`telemetry.pulse`)."""
STOP_S: Final = 15.0


class Reconciler:
    """The thread. Raises WrongSchedule or WrongSetting when it is made with settings that can't be used."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._schedule = schedule_of(settings)
        options_of(settings, "")
        self._thread = threading.Thread(target=self._live, name=NAME, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._clock: Clock | None = None
        self._up = threading.Event()
        self._lock = threading.Lock()
        self._reasons = {"kafka": "for Kafka; the schedule goes on", "database": "has not looked yet"}

    def start(self) -> None:
        """Begin to look at the schedule; returns when requests can be taken."""
        self._thread.start()
        self._up.wait()

    def stop(self) -> None:
        """End the run that goes on, in order, and the thread."""
        loop, main = self._loop, self._main
        if loop is not None and main is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(main.cancel)
        self._thread.join(STOP_S)

    def ask(self, request: UUID) -> concurrent.futures.Future[None]:
        """Note a request for a run; the future is done once it is durable."""
        assert self._loop is not None and self._clock is not None, "start it first"
        return asyncio.run_coroutine_threadsafe(self._clock.ask(request), self._loop)

    def say(self, part: str, reason: str | None) -> None:
        """What `part` waits for; None: for nothing. Ready is who waits for nothing. From any thread."""
        with self._lock:
            before = dict(self._reasons)
            if reason:
                self._reasons[part] = reason
            else:
                self._reasons.pop(part, None)
            if before != self._reasons:
                told = "; ".join(self._reasons.values())
                status.report(NAME, "waiting" if told else "ready", told)
                log.info("reconciler_waits" if told else "reconciler_ready", reason=told or None)

    def readings(self) -> Iterator[Reading]:
        """What its runs did, as metrics; nothing before it has begun."""
        if self._clock is not None:
            yield from self._clock.tally.readings()

    def _live(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            # without its clock nothing would ever be fired, and nobody would see it
            end_process(error)

    async def _run(self) -> None:
        self._main = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        async with workshop(self._url, self._settings) as (ledger, _, runner):
            self._clock = clock = Clock(
                self._schedule, ledger, runner, lambda reason: self.say("database", reason)
            )
            telling = asyncio.create_task(_tell(clock))
            self._up.set()
            try:
                await clock.run()
            finally:
                telling.cancel()
                status.counters(NAME, clock.tally.told())


async def _tell(clock: Clock) -> None:
    while True:
        pulse.beat(LOOP)
        status.counters(NAME, clock.tally.told())
        await asyncio.sleep(COUNTERS_EVERY_S)
