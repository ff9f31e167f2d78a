"""Secrets that can be recognised, in every setting that takes one: nothing that a process says holds any.

The processes are real, and their servers are not there or refuse, since that is when most is said.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ops.settings_page import settings_told
from settings import Settings
from tests.command_line import run_rajada

pytestmark = pytest.mark.long

MARK = "Zx9qSecretQv7"
"""In each secret."""
KEY = base64.urlsafe_b64encode(f"{MARK}{'k' * 32}".encode()[:32]).decode()
PROCESSES = {
    "relay": ["-m", "ops.cli", "relay"],
    "delays": ["-m", "ops.cli", "delays"],
    "sink": ["-m", "ops.cli", "sink"],
    "web": ["-m", "ops.cli", "web"],
    "worker": ["-m", "faust", "-A", "streams", "worker", "--without-web"],
    "reconciler": ["-m", "faust", "-A", "streams.reconcile", "worker", "--without-web"],
}
COMMANDS = ["settings", "doctor --json", "status --json", "topics describe", "migrate --dry-run", "dlq ls",
            "connector status", "jobs ls", "why 0b0c3f5e-5d0a-5c52-9d7e-0a4b1f1f6c11"]  # fmt: skip
"""Of `rajada`."""
SPEAKS_S = 6.0


def planted(home: Path) -> dict[str, str]:
    """Every secret that there is a setting for, and the two that stand in URLs."""
    secrets = {one.variable: f"{MARK}-{one.variable.lower()}" for one in settings_told() if one.secret}
    assert len(secrets) >= 6
    database = f"postgresql://rajada:{MARK}-pg@127.0.0.1:9/crm?connect_timeout=2"
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RAJADA_", "KAFKA_"))},
        **secrets,
        "RAJADA_SECRET_KEYS": KEY,
        "RAJADA_CONNECT_DATABASE_URL": database,
        "DATABASE_URL": database,
        "RAJADA_HOME": str(home),
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9",
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_USERNAME": "rajada",
        "SCHEMA_REGISTRY_USERNAME": "rajada",
        "AGENT_ENGINE_URL": "http://127.0.0.1:9/turns",
        "WHATSAPP_PHONE_NUMBER_ID": "123",
        "WHATSAPP_PROBE_URL": "http://127.0.0.1:9/{id}",
        "RAJADA_LOG_LEVEL": "DEBUG",
        "PYTHONUNBUFFERED": "1",
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def shown_on(port: int) -> str:
    """What a process shows of itself over HTTP."""
    shown = ""
    for path in ("/metrics", "/healthz", "/readyz"):
        try:
            shown += urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=3).read().decode()
        except urllib.error.HTTPError as error:
            shown += error.read().decode()
        except OSError:
            continue
    return shown


def held(text: str) -> list[str]:
    """Lines that hold a secret, plain or as it goes over the wire."""
    wire = base64.b64encode(MARK.encode()).decode().rstrip("=")[:-1]
    return [line for line in text.splitlines() if MARK in line or wire in line or KEY in line]


@pytest.mark.parametrize("name", PROCESSES)
def test_no_secret_of_the_settings_shows_anywhere(name: str, tmp_path: Path) -> None:
    port = free_port()
    environment = {**planted(tmp_path / "home"), "RAJADA_METRICS_PORT": str(port)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *PROCESSES[name]], env=environment, stdout=log, stderr=log, cwd=tmp_path,
        )  # fmt: skip
        shown, deadline = "", time.monotonic() + 60
        try:
            while time.monotonic() < deadline and process.poll() is None and not shown:
                shown = shown_on(port)
                time.sleep(0.2)
            if shown:
                time.sleep(SPEAKS_S)
                shown += shown_on(port)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
    told = (tmp_path / "log").read_text(errors="replace")
    assert len(told) > 20, "it said nothing, so nothing is proven"
    assert held(told) == [] and held(shown) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_one_while_nothing_is_there(command: str, tmp_path: Path) -> None:
    told = run_rajada(*command.split(), env=planted(tmp_path / "home"), cwd=tmp_path, timeout=200)
    assert len(told.stdout + told.stderr) > 20
    assert held(told.stdout + told.stderr) == []


def test_a_planted_secret_would_be_found() -> None:
    assert held(f"x\npassword={MARK}-pg\n") and held(KEY) and not held("password=[masked]")
    settings = Settings(database_url=f"postgresql://a:{MARK}@h/d", agent_engine_token=f"{MARK}-token")
    assert held(str(settings.agent_engine_token and settings.agent_engine_token.get_secret_value()))
