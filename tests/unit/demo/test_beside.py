"""What the demo says when a service of its stack says no."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ops.demo import links
from ops.demo.beside import asked
from ops.demo.links import Enrolments
from ops.demo.stack import not_in_time
from ops.errors import Unreachable
from ops.supervision.run_file import RunFile, UnitView


class Api(BaseHTTPRequestHandler):
    """Says 503 so often, then yes."""

    away = 0
    asked = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked += 1
        body = b'{"created": true}'
        self.send_response(503 if type(self).asked <= type(self).away else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    Api.away = Api.asked = 0
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def flow(api: str) -> Enrolments:
    return Enrolments(
        "postgresql://nobody@127.0.0.1:1/none", 1.0, lambda happening: None, web=api, whatsapp=api
    )


def test_an_api_whose_servers_are_away_for_a_moment_is_asked_again(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "AGAIN_S", 0.01)
    Api.away = 3
    assert flow(api)._post("/", {}) == {"created": True} and Api.asked == 4


def test_one_that_stays_away_is_told_in_one_line(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PATIENCE_S", 0.0)
    Api.away = 99
    with pytest.raises(Unreachable, match=r"HTTP API at .* answers 503 for /sendreminder\. Look") as told:
        flow(api)._post("/sendreminder", {})
    assert "\n" not in str(told.value)


def test_a_service_that_is_not_there_is_named(unused_tcp_port: int) -> None:
    address = f"http://127.0.0.1:{unused_tcp_port}"
    with (
        pytest.raises(Unreachable, match=r"stand-in at .* does not answer"),
        asked("stand-in", address) as api,
    ):
        api.get("/")


def test_when_the_patience_ends_it_is_told_who_is_missing_and_where_to_look() -> None:
    units = (
        UnitView("kafka", "ready", 0.0),
        UnitView("topics", "done", 0.0),
        UnitView("worker", "starting", 0.0),
    )
    told = not_in_time(RunFile(1, "", "starting", 0.0, units), Path("/demo/logs"))
    assert "Within 300 s worker did not start" in told and "/demo/logs" in told and "start it again" in told
    assert "the stack was not ready" in not_in_time(None, Path("/demo/logs"))
