"""The port of a process: `/metrics`, `/livez`, `/readyz`, `/startupz`, in a thread of its own.

A thread, so that it answers while the process' own loop is held up: just then somebody must be told.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast

import msgspec
import structlog

import status
from settings import Settings
from telemetry import catalogue, pulse
from telemetry.exhibit import CONTENT_TYPE, Exhibit
from telemetry.readings import Reading, Source
from telemetry.vitals import PROBES, Look, Probe, Trouble, Vitals, of_reason, trouble

log = structlog.get_logger(__name__)

WITHIN_S: Final = 5.0
"""How long a client may be silent before it is sent away."""
STOPS_WITHIN_S: Final = 0.1
"""How long the thread may go on listening when the port is closed."""


class Port:
    """What one process serves; made by `serve`."""

    def __init__(self, exhibit: Exhibit, vitals: Vitals, server: ThreadingHTTPServer) -> None:
        self.exhibit = exhibit
        self.vitals = vitals
        self._server = server

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def serve(
    settings: Settings, name: str, *sources: Source, ready: Look | None = None, live: Look = lambda: ()
) -> Port | None:
    """Serve from now on until the process ends; None when the port is off or can't be had.

    A port that is taken is told in the log and stops nobody: whoever moves messages does not end because
    nobody can look at it.

    Args:
        settings: RAJADA_METRICS_HOST and RAJADA_METRICS_PORT.
        name: of the process, as it reports itself by `status.report`.
        sources: read at each scrape.
        ready: what keeps it from working; None: what it last reported.
        live: what a restart would mend, besides a loop that hangs.
    """
    if not settings.metrics_port:
        return None
    vitals = Vitals(name, ready or reported(name), live, pulse.silences)
    exhibit = Exhibit()
    exhibit.show(*sources, _own(vitals))
    try:
        server = _Server((settings.metrics_host, settings.metrics_port), exhibit, vitals)
    except OSError as error:
        log.error(
            "metrics_port_taken",
            host=settings.metrics_host,
            port=settings.metrics_port,
            reason=error.strerror,
            what_to_do="give each process a RAJADA_METRICS_PORT of its own; it works on without",
        )
        return None
    threading.Thread(target=server.serve_forever, args=(STOPS_WITHIN_S,), name="metrics", daemon=True).start()
    port = Port(exhibit, vitals, server)
    log.info("metrics_served", url=port.url)
    return port


def reported(name: str) -> Look:
    """What a process waits for, as it last told by `status.report`."""

    def look() -> list[Trouble]:
        said = status.last(name)
        if said is None:
            return [trouble("work", "it is just starting")]
        return [] if said.state == "ready" else [of_reason(said.reason or "it waits")]

    return look


def _own(vitals: Vitals) -> Source:
    """What every process shows of itself."""

    def read() -> list[Reading]:
        silences = pulse.silences()
        return [
            Reading(catalogue.UP, 1, (vitals.name,)),
            Reading(catalogue.READY, int(not vitals.troubles("readyz"))),
            *(Reading(catalogue.LOOP_SILENCE, silent, (loop,)) for loop, silent in silences.items()),
        ]

    return read


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], exhibit: Exhibit, vitals: Vitals) -> None:
        self.exhibit = exhibit
        self.vitals = vitals
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout = WITHIN_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = cast("_Server", self.server)
        path = self.path.partition("?")[0]
        probe = path.removeprefix("/")
        if path == "/metrics":
            self._answer(200, CONTENT_TYPE, server.exhibit.render())
        elif probe in PROBES:
            self._answer_probe(server.vitals, probe)
        else:
            known = ["/metrics", *(f"/{one}" for one in PROBES)]
            self._answer(404, "application/json", msgspec.json.encode({"known": known}))

    do_HEAD = do_GET

    def _answer_probe(self, vitals: Vitals, probe: Probe) -> None:
        found = vitals.troubles(probe)
        body = {
            "process": vitals.name,
            "ok": not found,
            "troubles": [one._asdict() for one in found],
        }
        self._answer(503 if found else 200, "application/json", msgspec.json.encode(body) + b"\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Whoever asks every few seconds is not worth a line."""
