"""The compose file's services of ours, started with its very commands and environment, on real servers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ops.clinic import Clinic, Message
from ops.embedded.connect import EmbeddedConnect
from ops.embedded.ports import ports_for
from tests import yaml_texts
from tests.e2e.waiting import until, value
from tests.unit.deploy.shipped import ROOT, composed

pytestmark = pytest.mark.long

SERVICES = composed({"AGENT_ENGINE_URL": "http://engine:8099/turns"})["services"]
"""As docs/deploy.md starts it with the stand-in engine."""
ONCE = ("migrate", "topics", "schemas", "connectors")
RUNNING = ("worker", "delays", "sink", "reconciler", "web", "engine")
PROGRAMS = {
    "rajada": [sys.executable, "-m", "ops.cli"],
    "faust": [sys.executable, "-m", "faust"],
    "python": [sys.executable],
}
READY_S = 60.0


class Here:
    """The compose file's world on this machine: whose addresses and ports stand for which."""

    def __init__(self, folder: Path, addresses: Mapping[str, str], prefix: str) -> None:
        self._folder = folder
        self._addresses = dict(addresses)
        name = prefix.rstrip(".")
        # several installations share the tests' servers
        self._ours = {"RAJADA_TOPIC_PREFIX": prefix, "RAJADA_SLOT": name, "RAJADA_PUBLICATION": name}
        wanted = tuple(f"{one}-{port}" for one in RUNNING for port in self.ports(one))
        self._ports = ports_for(wanted, folder / "ports.json")
        self._addresses["engine:8099"] = f"127.0.0.1:{self._ports['engine-8099']}"
        self._addresses["/opt/rajada/connect"] = str(ROOT / "deploy/connect")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._connect: EmbeddedConnect | None = None

    def connect(self) -> None:
        """Start Kafka Connect with the environment that its service has."""
        told = {**self.environment("connect"), "RAJADA_TOPIC_PREFIX": self._ours["RAJADA_TOPIC_PREFIX"]}
        self._connect = EmbeddedConnect(self._folder / "data", lambda: told).start()
        self._addresses[SERVICES["worker"]["environment"]["RAJADA_CONNECT_URL"]] = self._connect.url

    def stop(self) -> None:
        """End all of them."""
        for process in self.running.values():
            process.terminate()
        if self._connect is not None:
            self._connect.stop()
        for process in self.running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ports(self, name: str) -> list[str]:
        """The ports that a service listens on, as the compose file has them."""
        command, told = SERVICES[name]["command"], SERVICES[name]["environment"]
        found = [command[command.index("--port") + 1]] if "--port" in command else []
        return found + ([str(told["RAJADA_METRICS_PORT"])] if "RAJADA_METRICS_PORT" in told else [])

    def _here(self, name: str, text: str) -> str:
        for there, here in self._addresses.items():
            text = text.replace(there, here)
        for port in self.ports(name) if name in RUNNING else ():
            text = re.sub(rf"(?<!\d){port}(?!\d)", str(self._ports[f"{name}-{port}"]), text)
        return text.replace("0.0.0.0", "127.0.0.1")

    def environment(self, name: str) -> dict[str, str]:
        """A service's environment, of whatever else we are in only what any program needs."""
        needed = {
            key: os.environ[key] for key in ("PATH", "HOME", "PYTHONPYCACHEPREFIX") if key in os.environ
        }
        told = {key: self._here(name, str(value)) for key, value in SERVICES[name]["environment"].items()}
        home = self._folder / name
        home.mkdir(exist_ok=True)
        return {**needed, **told, **self._ours, "RAJADA_HOME": str(home)}

    def command(self, name: str, words: list[str]) -> list[str]:
        """A command of a service."""
        program, *arguments = words
        return [*PROGRAMS[program], *(self._here(name, one) for one in arguments)]

    def once(self, name: str) -> None:
        """Run a one-shot to its end."""
        done = subprocess.run(
            self.command(name, SERVICES[name]["command"]),
            env=self.environment(name),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"

    def start(self, name: str) -> None:
        """Start a service."""
        with (self._folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                self.command(name, SERVICES[name]["command"]),
                env=self.environment(name),
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def healthy(self, name: str) -> bool:
        """What its health check says."""
        test = SERVICES[name]["healthcheck"]["test"]
        assert test[0] == "CMD"
        done = subprocess.run(self.command(name, test[1:]), capture_output=True, timeout=30)
        return done.returncode == 0

    def told(self, name: str) -> str:
        """The end of its log."""
        return (self._folder / f"{name}.log").read_text(errors="replace")[-3_000:]


@pytest.fixture
def here(tmp_path: Path, kafka: str, empty_database: str, registry_url: str, prefix: str) -> Iterator[Here]:
    environment: dict[str, Any] = SERVICES["worker"]["environment"]
    made = Here(
        tmp_path,
        {
            environment["KAFKA_BOOTSTRAP_SERVERS"]: kafka,
            environment["DATABASE_URL"]: empty_database,
            environment["SCHEMA_REGISTRY_URL"]: registry_url,
        },
        prefix,
    )
    yield made
    made.stop()


def requests() -> dict[str, int]:
    """What the manifests ask for, MiB, by process."""
    units, found = {"Mi": 1, "Gi": 1024}, {}
    for file in (ROOT / "deploy/k8s").glob("*.yaml"):
        for one in yaml_texts.read_all(file.read_text()):
            if one["kind"] in ("Deployment", "StatefulSet"):
                (container,) = one["spec"]["template"]["spec"]["containers"]
                memory = container["resources"]["requests"]["memory"]
                found[one["metadata"]["name"]] = int(memory[:-2]) * units[memory[-2:]]
    return found


def highest_mib(pid: int) -> float:
    """The most memory that a process has had resident, MiB."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) / 1024


def test_in_the_files_order_each_service_comes_up_is_healthy_and_a_burst_is_answered(
    here: Here, empty_database: str
) -> None:
    here.connect()
    for name in ONCE:
        here.once(name)
    for name in RUNNING:
        here.start(name)
    left, deadline = set(RUNNING), time.monotonic() + READY_S
    while left and time.monotonic() < deadline:
        left -= {name for name in left if here.healthy(name)}
        dead = [name for name in left if here.running[name].poll() is not None]
        assert not dead, f"{dead[0]} ended: {here.told(dead[0])}"
        time.sleep(0.5)
    assert not left, "\n".join(f"{name}: {here.told(name)}" for name in left)
    asked = requests()
    for name, process in here.running.items():
        used = highest_mib(process.pid)
        print(f"{name}: {used:.0f} MiB at rest")  # docs/scale.md
        assert used < asked.get(name, used + 1), f"{name} needs more than its manifest's {asked[name]}"
    with psycopg.connect(empty_database, autocommit=True) as connection:
        clinic = Clinic.found(connection, debounce_ms=300)
        (ana,) = clinic.register(connection, ["Ana"])
        for _ in range(3):
            clinic.write(connection, [Message(ana)])
        # A Connect that has just begun may bring the three one by one, each after the last one's window: then
        # the newest is answered and the others are superseded by it. In either case one job, and none open.
        until(
            lambda: value(connection, "SELECT count(*) FROM event_log WHERE outcome IS NOT NULL") == 3,
            seconds=180,
            told=lambda: here.told("worker"),
        )
        until(lambda: value(connection, "SELECT count(*) FROM job_queue WHERE status = 'done'") == 1)
        assert value(connection, "SELECT count(*) FROM job_queue") == 1
