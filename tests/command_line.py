"""Our programs as processes of their own, forked from one that has imported them already.

Their imports take seconds on a busy machine; here they are paid once for all processes of a test run. That a
fresh interpreter does as well is shown by tests/unit/test_ops_cli.py, the demo's test and the supervisor's.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

ROOT = Path(__file__).parents[1]
RAJADA = [sys.executable, "-m", "ops.cli"]
"""The command `rajada`."""
FAUST = [sys.executable, "-m", "faust"]
IMPORTED = (
    "db.migrate",
    "db.relay",
    "db.runs",
    "faust.cli.worker",
    "ops.alerts",
    "ops.backfill",
    "ops.cli",
    "ops.dlq.requeue",
    "ops.doctor",
    "ops.forget",
    "ops.job_asks",
    "ops.job_rows",
    "ops.orders",
    "ops.produce",
    "ops.replay",
    "ops.why.show",
    "ops.why.visit",
    "pytest",
    "rich.progress",
    "rich.table",
    "sinks.writer",
    "streams.app",
    "streams.delays.process",
    "streams.reconcile.app",
    "typer.rich_utils",
    "web.process",
)

_forked = multiprocessing.get_context("forkserver")
_forked.set_forkserver_preload([__name__, *IMPORTED])


class Running(Protocol):
    """A process that was started: what `subprocess.Popen` knows of one."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Its exit code, once it has ended; minus a signal's number when that ended it."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, at most `timeout` seconds. Raises subprocess.TimeoutExpired."""

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL."""


class _Forked:
    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, files: _Files) -> None:
        self._command = list(command)
        for file in files[1:]:
            file.touch()  # whoever looks at once finds that nothing was said yet
        self._process = _forked.Process(
            target=_run, args=(list(command)[2:], dict(env), cwd, files), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        connection.wait([self._process.sentinel], timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._command, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


_Files = tuple[Path, Path, Path]
"""What standard input is read from, and what output and error are appended to."""


def start(command: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path = ROOT) -> Running:
    """Start a program with this environment, nothing of ours; what it says is appended to `log`.

    `rajada` and `faust` with today's code are forked, anything else is started as it stands.
    """
    if cwd == ROOT and list(command[:3]) in (RAJADA, FAUST):
        return _Forked(command, env, cwd, (Path(os.devnull), log, log))
    with log.open("ab") as told:
        return subprocess.Popen(list(command), env=dict(env), stdout=told, stderr=told, cwd=cwd)


def run_rajada(
    *arguments: str,
    env: Mapping[str, str],
    given: bytes = b"",
    cwd: Path = ROOT,
    timeout: float = 90.0,
) -> subprocess.CompletedProcess[str]:
    """Run `rajada` with these arguments and this environment, nothing of ours, `given` on its standard input.

    Raises subprocess.TimeoutExpired after `timeout` seconds.
    """
    with TemporaryDirectory() as made:
        files = (Path(made, "in"), Path(made, "out"), Path(made, "err"))
        files[0].write_bytes(given)
        process = _Forked([*RAJADA, *arguments], env, cwd, files)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        out, err = (file.read_text(errors="replace") for file in files[1:])
        return subprocess.CompletedProcess(["rajada", *arguments], code, out, err)


def _run(command: list[str], environment: dict[str, str], cwd: Path, files: _Files) -> None:
    """The forked process: `command` is a module and its arguments."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, file in enumerate(files):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY
        opened = os.open(file, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115  for the process' life
    module, *arguments = command
    sys.argv = [module, *arguments]
    if module == "ops.cli":
        from ops.cli import main

        main()
    else:
        from faust.cli.faust import cli

        import streams.reconcile

        # where -A looks for an application there is a module now
        for package in (streams, streams.reconcile):
            vars(package).pop("app", None)
        cli()
