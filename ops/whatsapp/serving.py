"""Serving the stand-in WhatsApp: in this process until told to stop, or beside it in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final

from aiohttp import web

from ops.errors import CannotRunHere
from ops.whatsapp.app import StandIn
from ops.whatsapp.messages import Got
from ops.whatsapp.scenario import DEFAULT, Scenario

HOST: Final = "127.0.0.1"
START_S: Final = 10.0


@asynccontextmanager
async def served(stand_in: StandIn, port: int = 0, host: str = HOST) -> AsyncIterator[str]:
    """Serve it as long as the block lasts; gives its URL. Port 0: a free one.

    Raises:
        CannotRunHere: the port is taken.
    """
    runner = web.AppRunner(stand_in.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=1_024)
        try:
            await site.start()
        except OSError as error:
            raise CannotRunHere(
                f"The stand-in can't listen on {host}:{port} ({error.strerror}). Choose another --port."
            ) from error
        _, bound = runner.addresses[0][:2]
        yield f"http://{host}:{bound}"
    finally:
        await runner.cleanup()


class WhatsAppBeside:
    """A stand-in in a thread of this process: `with WhatsAppBeside() as whatsapp: … whatsapp.url …`.

    `default` and `token`: see `ops.whatsapp.app.StandIn`.
    """

    def __init__(self, default: Scenario | None = None, *, token: str | None = None) -> None:
        self._default, self._token = default, token
        self._stand_in: StandIn | None = None
        self.url = ""
        """What WHATSAPP_API_URL is to be."""
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="whatsapp", daemon=True)

    def __enter__(self) -> WhatsAppBeside:
        self._thread.start()
        if not self._ready.wait(START_S) or self._stand_in is None:
            raise CannotRunHere("The stand-in WhatsApp did not start.") from self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_S)

    def treat(self, scenario: Scenario, who: str = DEFAULT) -> None:
        """Treat a phone or a template (its name), or everybody else, so from now on."""
        self._running.scenarios.set(who, scenario)

    def messages(self, phone: str | None = None) -> list[Got]:
        """Messages that came so far, to one phone if named."""
        return [one for one in tuple(self._running.messages.got) if phone in (None, one.phone)]

    def taken(self) -> dict[str, int]:
        """Phone → how many messages were taken for it."""
        return dict(self._running.messages.taken)

    def forget(self) -> None:
        """Forget messages and scenarios; everybody is treated well."""
        self._running.forget()
        self._running.scenarios.set(DEFAULT, Scenario())

    @property
    def _running(self) -> StandIn:
        if self._stand_in is None:
            raise RuntimeError("the stand-in serves inside its `with` block only")
        return self._stand_in

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        stand_in = StandIn(self._default, token=self._token)
        async with served(stand_in) as self.url:
            self._stand_in = stand_in
            self._ready.set()
            await self._stop.wait()
