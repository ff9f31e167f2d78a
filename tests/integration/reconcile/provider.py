"""A stand-in for the provider: a real HTTP server that answers as it is told and notes who was asked of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Answer = tuple[int, bytes]
HEALTHY: Answer = (200, b'{"healthy": true}')
UNHEALTHY: Answer = (200, b'{"healthy": false}')


class Provider:
    """What the server does: `answer(name)` gives status and body; None: it never answers."""

    def __init__(self) -> None:
        self.answer: Callable[[str], Answer | None] = lambda name: HEALTHY
        self.asked: list[str] = []
        """Names of the instances, in their order."""
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self.url = ""
        self._at_once = 0
        self._lock = threading.Lock()
        self.over = threading.Event()

    def handle(self, path: str, headers: dict[str, str]) -> Answer | None:
        name = urlsplit(path).path.rsplit("/", 1)[-1]
        with self._lock:
            self.asked.append(name)
            self.headers.append(headers)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(0.005)
            return self.answer(name)
        finally:
            with self._lock:
                self._at_once -= 1


@contextmanager
def serving() -> Iterator[Provider]:
    """The server, as long as the block; its URL with a place for the instance is `url`."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = provider.handle(self.path, {k.lower(): v for k, v in self.headers.items()})
            if answer is None:
                provider.over.wait(30)
                self.close_connection = True
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere/healthy")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/instances/{{id}}"
    try:
        yield provider
    finally:
        provider.over.set()
        server.shutdown()
        thread.join(10)
        server.server_close()
