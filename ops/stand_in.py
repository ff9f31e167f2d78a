"""What stand-ins for other people's services share: how they are served, and whose scenario is whose."""

from __future__ import annotations

import asyncio
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

import msgspec
from aiohttp import web

from ops.errors import CannotRunHere, WrongScenario

HOST: Final = "127.0.0.1"
START_S: Final = 10.0
DEFAULT: Final = "default"
"""The name under which the scenario of everybody else is kept."""

S = TypeVar("S")


class Scenarios(Generic[S]):
    """Which scenario is whose."""

    def __init__(self, default: S) -> None:
        self._named: dict[str, S] = {DEFAULT: default}

    def set(self, name: str, scenario: S) -> None:
        """Set that of a name that requests carry, or of everybody else (`default`)."""
        self._named[name] = scenario

    def clear(self) -> None:
        """Forget all but the one of everybody else."""
        self._named = {DEFAULT: self._named[DEFAULT]}

    def of(self, *names: str, asked: S | None = None) -> S:
        """That of the first name which has one, else what the request asks for, else everybody's."""
        named = next((self._named[name] for name in names if name in self._named), None)
        return named or asked or self._named[DEFAULT]


class StandIn(ABC, Generic[S]):
    """A stand-in as a web application: `PUT /scenarios/<name>` changes how it behaves.

    Args:
        default: how everybody is treated that has no scenario of their own.
        read: a scenario from the JSON that was PUT; raises WrongScenario.
    """

    def __init__(self, default: S, read: Callable[[bytes], S]) -> None:
        self.scenarios = Scenarios(default)
        self._read_scenario = read
        self._stopped = asyncio.Event()

    @abstractmethod
    def forget(self) -> None:
        """Forget what came, and the scenarios of single names."""

    @abstractmethod
    def _routes(self) -> list[web.RouteDef]:
        """What it serves beside scenarios."""

    def application(self, client_max_size: int = 8 * 1024 * 1024) -> web.Application:
        """The application, to be served by aiohttp."""
        application = web.Application(client_max_size=client_max_size)
        application.add_routes([web.put("/scenarios/{name}", self._set_scenario), *self._routes()])
        application.on_shutdown.append(self._stop)
        return application

    async def _stop(self, application: web.Application) -> None:
        self._stopped.set()

    async def _clear(self, request: web.Request) -> web.Response:
        self.forget()
        return web.Response(status=204)

    async def _set_scenario(self, request: web.Request) -> web.Response:
        try:
            self.scenarios.set(request.match_info["name"], self._read_scenario(await request.read()))
        except WrongScenario as error:
            return as_json(422, {"detail": str(error)})
        return web.Response(status=204)


class Application(Protocol):
    """What can be served."""

    def application(self) -> web.Application:
        """The application, to be served by aiohttp."""


A = TypeVar("A", bound=Application)


def as_json(status: int, content: object, headers: dict[str, str] | None = None) -> web.Response:
    """An answer with a body of JSON."""
    return web.Response(
        status=status, body=msgspec.json.encode(content), content_type="application/json", headers=headers
    )


@asynccontextmanager
async def served(stand_in: Application, port: int = 0, host: str = HOST) -> AsyncIterator[str]:
    """Serve it as long as the block lasts; gives its URL, without a path. Port 0: a free one.

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


async def stopped_by_signals() -> None:
    """Return on SIGTERM or SIGINT."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


class Beside(ABC, Generic[A]):
    """A stand-in in a thread of this process: `with …Beside() as one: … one.url …`."""

    name: str
    """What stands in for what: for the thread and for errors."""
    path = ""
    """What its URL ends with."""

    def __init__(self) -> None:
        self.url = ""
        """Where it listens, once it does."""
        self._stand_in: A | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    @abstractmethod
    def _make(self) -> A:
        """A new one; called in the thread."""

    def _close(self, stand_in: A) -> None:
        """It has ended."""

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_S) or self._stand_in is None:
            raise CannotRunHere(f"The stand-in {self.name} did not start.") from self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_S)

    @property
    def _running(self) -> A:
        if self._stand_in is None:
            raise RuntimeError(f"the stand-in {self.name} serves inside its `with` block only")
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
        stand_in = self._make()
        try:
            async with served(stand_in) as url:
                self.url = url + self.path
                self._stand_in = stand_in
                self._ready.set()
                await self._stop.wait()
        finally:
            self._close(stand_in)
