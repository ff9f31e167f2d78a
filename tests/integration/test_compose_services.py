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

import pytest
import yaml

from ops.embedded.ports import ports_for
from tests.unit.deploy.shipped import ROOT, composed

pytestmark = pytest.mark.long

SERVICES = composed()["services"]
ONCE = ("migrate", "topics", "schemas")
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
        self._addresses = addresses
        name = prefix.rstrip(".")
        # several installations share the tests' servers
        self._ours = {"RAJADA_TOPIC_PREFIX": prefix, "RAJADA_SLOT": name, "RAJADA_PUBLICATION": name}
        wanted = tuple(f"{one}-{port}" for one in RUNNING for port in self.ports(one))
        self._ports = ports_for(wanted, folder / "ports.json")
        self.running: dict[str, subprocess.Popen[bytes]] = {}

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
    for process in made.running.values():
        process.terminate()
    for process in made.running.values():
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def requests() -> dict[str, int]:
    """What the manifests ask for, MiB, by process."""
    units, found = {"Mi": 1, "Gi": 1024}, {}
    for file in (ROOT / "deploy/k8s").glob("*.yaml"):
        for one in yaml.safe_load_all(file.read_text()):
            if one["kind"] in ("Deployment", "StatefulSet"):
                (container,) = one["spec"]["template"]["spec"]["containers"]
                memory = container["resources"]["requests"]["memory"]
                found[one["metadata"]["name"]] = int(memory[:-2]) * units[memory[-2:]]
    return found


def highest_mib(pid: int) -> float:
    """The most memory that a process has had resident, MiB."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) / 1024


def test_in_the_files_order_each_service_comes_up_and_its_health_check_says_so(here: Here) -> None:
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
