"""`rajada web`: the service on its port, what it reports, and a stop that lets requests end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Final

import structlog
import uvicorn
import uvloop

import status
from settings import RajadaError, Settings
from telemetry import pulse
from telemetry.serving import serve
from web.app import build
from web.pages.desk import Desk
from web.parts import Parts

log = structlog.get_logger(__name__)

NAME: Final = "web"
PORT: Final = 8088
"""Unless RAJADA_WEB_PORT says another."""
LOOK_EVERY_S: Final = 1.0
STOP_WITHIN_S: Final = 10
BACKLOG: Final = 2_048


class CannotListen(RajadaError):
    """The service's port is taken or not allowed; the message names it."""


class _Server(uvicorn.Server):
    """A server whose signals are ours: after a graceful stop the process ends well."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def run_web(url: str, settings: Settings, *, host: str, port: int, desk: Desk | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then let requests end for a while; a second one ends it at once.

    Args:
        url: libpq URL of the database; it need not be up.
        settings: of the installation.
        host: address to listen on.
        port: 0 = a free one.
        desk: of the live page; None: it is not served.

    Raises:
        CannotListen: the port can't be listened on.
    """
    with _listening(host, port) as listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(url, settings, listener, desk))


async def _serve(url: str, settings: Settings, listener: socket.socket, desk: Desk | None) -> None:
    application = build(url, settings, desk)
    serve(settings, NAME, application.state.parts.counts.readings)
    server = _Server(
        uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            lifespan="on",
            http="httptools",  # with uvloop a request costs a third less of the processor (bench/web.py)
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=STOP_WITHIN_S,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, server, application.state.parts, number)
    host, port = listener.getsockname()[:2]
    watch = asyncio.create_task(_watch(server, application.state.parts, f"http://{host}:{port}"))
    try:
        await server.serve(sockets=[listener])
    finally:
        watch.cancel()
    log.info("web_stopped", **application.state.parts.counts.told())


def _stop(server: uvicorn.Server, parts: Parts, number: signal.Signals) -> None:
    server.should_exit = True
    if parts.live is not None:
        parts.live.closing = True  # who follows a page is no request that is let end
    asyncio.get_running_loop().remove_signal_handler(number)


async def _watch(server: uvicorn.Server, parts: Parts, url: str) -> None:
    """Tell whether the service can do its work, and what it did."""
    told: str | None = ""
    while True:
        pulse.beat()
        if server.started:
            await parts.look()
            if parts.waits_for != told:
                told = parts.waits_for
                status.report(NAME, "waiting" if told else "ready", told or url)
                log.info("web_waits" if told else "web_ready", reason=told, url=url)
            status.counters(NAME, parts.counts.told())
        await asyncio.sleep(LOOK_EVERY_S if server.started else 0.02)


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise CannotListen(
                f"The HTTP API can't listen on {host}:{port} ({error.strerror}). Set RAJADA_WEB_PORT (and "
                "RAJADA_WEB_HOST) to what is free."
            ) from error
        yield listener
