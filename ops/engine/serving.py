"""Serving the stand-in engine: in this process until told to stop, or beside it in a thread."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from aiohttp import web

from ops.engine.app import Engine
from ops.engine.journal import Asked, Journal
from ops.engine.scenario import DEFAULT, Scenario
from ops.errors import CannotRunHere

HOST: Final = "127.0.0.1"
START_S: Final = 10.0


@asynccontextmanager
async def served(engine: Engine, port: int = 0, host: str = HOST) -> AsyncIterator[str]:
    """Serve an engine as long as the block lasts; gives its URL. Port 0: a free one.

    Raises:
        CannotRunHere: the port is taken.
    """
    runner = web.AppRunner(engine.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=1_024)
        try:
            await site.start()
        except OSError as error:
            raise CannotRunHere(
                f"The engine can't listen on {host}:{port} ({error.strerror}). Choose another --port."
            ) from error
        _, bound = runner.addresses[0][:2]
        yield f"http://{host}:{bound}/turns"
    finally:
        await runner.cleanup()


async def stopped_by_signals() -> None:
    """Return on SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


class EngineBeside:
    """An engine in a thread of this process: `with EngineBeside() as engine: … engine.url …`.

    Args:
        default: how everybody is treated that has no scenario of their own.
        honours_keys, token: see `ops.engine.app.Engine`.
        log: where requests are written as JSON lines; None: nowhere.
    """

    def __init__(
        self,
        default: Scenario | None = None,
        *,
        honours_keys: bool = True,
        token: str | None = None,
        log: Path | None = None,
    ) -> None:
        self._make: Callable[[], Engine] = lambda: Engine(
            Journal(log), default, honours_keys=honours_keys, token=token
        )
        self._engine: Engine | None = None
        self._url = ""
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def __enter__(self) -> EngineBeside:
        self._thread.start()
        if not self._ready.wait(START_S) or self._engine is None:
            raise CannotRunHere("The stand-in engine did not start.") from self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_S)

    @property
    def url(self) -> str:
        """Where turns are POSTed to."""
        return self._url

    def treat(self, scenario: Scenario, who: str = DEFAULT) -> None:
        """Treat a job or a contact (its id), or everybody else, so from now on."""
        self._running.scenarios.set(who, scenario)

    def requests(self, *, job_id: str | None = None, contact_id: str | None = None) -> list[Asked]:
        """Requests so far, in the order they came."""
        return self._running.journal.requests(job_id=job_id, contact_id=contact_id)

    def effects(self) -> dict[str, int]:
        """Idempotency key → how often its work was done."""
        return dict(self._running.journal.effects)

    def forget(self) -> None:
        """Forget requests, keys and scenarios; everybody is treated well."""
        self._running.forget()
        self._running.scenarios.set(DEFAULT, Scenario())

    @property
    def _running(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the engine serves inside its `with` block only")
        return self._engine

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        engine = self._make()
        try:
            async with served(engine) as self._url:
                self._engine = engine
                self._ready.set()
                await self._stop.wait()
        finally:
            engine.journal.close()
