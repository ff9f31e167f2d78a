"""Stand-ins, started and killed by tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[3]

TABLES = """
CREATE TABLE crm_script (contact_id uuid PRIMARY KEY, failures integer NOT NULL);
CREATE TABLE crm_runs (job_id uuid NOT NULL, attempt integer NOT NULL, worker text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE crm_answers (job_id uuid NOT NULL, event_id uuid NOT NULL, worker text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE crm_rides (event_id uuid NOT NULL, job_id uuid NOT NULL);
"""
"""What the stand-ins are told (failures before a contact's job works) and what they did."""


def make_tables(url: str) -> None:
    """The stand-ins' own tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLES)


class StandIn:
    """One process of the CRM."""

    def __init__(self, program: str, url: str, name: str, log: Path, **options: object) -> None:
        command = [sys.executable, "-m", f"tests.e2e.stand_ins.{program}", url, name]
        command += [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            self.process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=stream, stderr=stream)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(20)

    def stop(self) -> None:
        """Let it finish what it has in hand."""
        self.kill(signal.SIGTERM)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


@contextlib.contextmanager
def running(*stand_ins: StandIn) -> Iterator[None]:
    """Stop them at the end, however it comes."""
    try:
        yield
    finally:
        for one in stand_ins:
            one.kill()
