"""Whatever its own OpenAPI document lets one think of, the running service has no defect (schemathesis)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

import status
from ops.clinic import Connection
from ops.whatsapp.serving import WhatsAppBeside
from tests.integration.web.conftest import organization, token_of

EXAMPLES = 60
OPERATIONS = [
    ("POST", "/"),
    ("POST", "/sendreminder"),
    ("GET", "/jobs/{id}"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
]


@pytest.fixture
def running(database: str, whatsapp: WhatsAppBeside, tmp_path: Path) -> Iterator[str]:
    """The URL of `rajada web`, a process of its own."""
    environment = {
        **os.environ,
        "DATABASE_URL": database,
        "RAJADA_STATUS_DIR": str(tmp_path),
        "RAJADA_WEB_RATE_PER_S": "0",
        "WHATSAPP_API_URL": whatsapp.url,
        "WHATSAPP_PHONE_NUMBER_ID": "1055",
        "WHATSAPP_ACCESS_TOKEN": "stand-in-token",
    }
    command = [sys.executable, "-m", "ops.cli", "web", "--port", "0"]
    with (tmp_path / "web.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while (said := status.read(tmp_path, "web")) is None or said.state != "ready":
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "web.log").read_text()
        time.sleep(0.05)
    yield said.reason
    process.terminate()
    assert process.wait(20) == 0, "a graceful stop ends well"
    assert "web_defect" not in (tmp_path / "web.log").read_text()


def test_no_request_of_its_own_schema_or_beside_it_is_a_defect(
    running: str, database: str, connection: Connection
) -> None:
    token = token_of(connection, organization(connection))
    schema = schemathesis.openapi.from_url(f"{running}/openapi.json")
    for method, path in OPERATIONS:
        operation = schema[path][method]
        cases = operation.as_strategy()
        seen: set[int] = set()

        @hypothesis_settings(
            max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
        )
        @given(case=cases)
        def ask(case: schemathesis.Case) -> None:
            headers = {"Authorization": f"Bearer {token}"}
            answer = case.call(base_url=running, headers=headers)
            seen.add(answer.status_code)  # noqa: B023  # it is called in this very round
            assert answer.status_code < 500, (case.method, case.path, answer.status_code, answer.text)
            case.validate_response(answer, checks=[schemathesis.checks.not_a_server_error])

        ask()
        assert seen <= {200, 202, 400, 403, 404, 405, 413, 422, 502, 504}, (path, seen)
    assert httpx.get(f"{running}/livez").status_code == 200
