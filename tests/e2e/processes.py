"""The real processes of the main path, started, killed and restarted by tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import status
from tests.command_line import FAUST, RAJADA, ROOT, Running, run_rajada, start

READY_S = 120.0
"""At a load of 17 on two cores a worker took 28 s to start, 3 s of them its own; at 22 more than 45 s."""
COMMANDS: dict[str, list[str]] = {
    "relay": [*RAJADA, "relay"],
    "worker": [*FAUST, "-A", "streams", "worker", "--without-web"],
    "sink": [*RAJADA, "sink"],
    "delays": [*RAJADA, "delays"],
    "web": [*RAJADA, "web"],
    "reconciler": [*FAUST, "-A", "streams.reconcile", "worker", "--without-web"],
}
RUNS_JOBS = {"AGENT_ENGINE_URL", "WHATSAPP_API_URL"}
"""Settings that say: this test is about jobs that run."""
NAMES = ("relay", "worker", "sink")
"""What a message needs to become a job; `delays` is started by those who look at retries."""


class Processes:
    """Relay, worker and sink of one installation."""

    def __init__(self, folder: Path, kafka: str, database: str, prefix: str, **settings: str) -> None:
        self._folder = folder
        self.status = folder / "status"
        """Where they report."""
        name = f"e2e_{prefix.rstrip('.')}"
        self.environment = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": kafka,
            "DATABASE_URL": database,
            "RAJADA_TOPIC_PREFIX": prefix,
            "RAJADA_SLOT": name,
            "RAJADA_PUBLICATION": name,
            "RAJADA_HOME": str(folder),
            "RAJADA_STATUS_DIR": str(self.status),
            "RAJADA_LOG_FORMAT": "json",
            "RAJADA_SESSION_TIMEOUT_S": "3",
            # where nobody looks at the running of jobs they stay as they were made, one row a window
            "RAJADA_JOBS_PAUSED": "0" if settings.keys() & RUNS_JOBS else "1",
            **settings,
        }
        self.commands = dict(COMMANDS)
        """How each is started; a test may put another program in a place."""
        self.sources = ROOT
        """Whose code runs: another folder for another version."""
        self.own: dict[str, dict[str, str]] = {}
        """What one of them alone is told: its login."""
        self._running: dict[str, Running] = {}

    def start(self, *names: str) -> None:
        """Start these (default: all) and wait until they are ready."""
        for name in names or NAMES:
            self.spawn(name)
        for name in names or NAMES:
            self.wait_ready(name)

    def spawn(self, name: str) -> None:
        """Start one without waiting."""
        status.forget(self.status, name)
        self._running[name] = start(
            self.commands[name],
            env={**self.environment, **self.own.get(name, {})},
            log=self.log(name),
            cwd=self.sources,
        )

    def wait_ready(self, name: str) -> None:
        """Wait until a process says so; fails with its log when it dies or takes too long."""
        process, deadline = self._running[name], time.monotonic() + READY_S
        while time.monotonic() < deadline:
            said = status.read(self.status, name)
            if said is not None and said.state == "ready" and said.pid == process.pid:
                return
            if process.poll() is not None:
                break
            time.sleep(0.05)
        tail = self.log(name).read_text(errors="replace")[-3_000:]
        load = os.getloadavg()[0]
        raise AssertionError(f"{name} isn't ready (exit code {process.poll()}, load {load:.0f}):\n{tail}")

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        process = self._running[name]
        process.send_signal(how)
        return process.wait(30)

    def freeze(self, name: str) -> None:
        """Stop it in the middle of whatever it does, as a machine that swaps or a paused container does."""
        self._running[name].send_signal(signal.SIGSTOP)

    def alive(self) -> Sequence[str]:
        """Names of those that run."""
        return [name for name, process in self._running.items() if process.poll() is None]

    def ensure_alive(self) -> None:
        """Restart what died, as the supervisor does."""
        for name in self._running.keys() - set(self.alive()):
            self.spawn(name)

    def stop(self) -> None:
        """End all of them, gracefully first."""
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def told(self, name: str) -> str:
        """What a process said when it was ready last: where it listens, if it does."""
        said = status.read(self.status, name)
        assert said is not None and said.state == "ready", f"{name} is not ready"
        return said.reason

    def rajada(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of today's `rajada` with the settings of these processes, to its end."""
        env = {**self.environment, **self.own.get("operator", {})}
        return run_rajada(*arguments, env=env, given=typed.encode())

    def doctor(self) -> list[dict[str, Any]]:
        """The checks of `rajada doctor`."""
        checks: list[dict[str, Any]] = json.loads(self.rajada("doctor", "--json").stdout)["checks"]
        return checks

    def log(self, name: str) -> Path:
        """The log file of a process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{name}.log"
