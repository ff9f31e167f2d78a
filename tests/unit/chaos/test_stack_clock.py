"""A process' clock is set while it runs: what it reads moves, what it waits by does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.stack.clock import Clocks

pytestmark = pytest.mark.thorough

READS = """
import json, sys, time
for line in sys.stdin:
    began = time.monotonic()
    time.sleep(0.05)
    print(json.dumps([time.time(), time.time_ns() / 1e9, time.monotonic() - began]), flush=True)
"""
ASKS_NOBODY = """
import sys
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
print("asking", flush=True)
try:
    admin.list_topics(timeout=3)
except KafkaException:
    print("no answer", flush=True)
"""


def started(program: str, clocks: Clocks) -> subprocess.Popen[str]:
    """A Python process with the clock `one`."""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **clocks.environment("one")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def clocks(tmp_path: Path) -> Clocks:
    found = Clocks(tmp_path / "clocks")
    found.use()
    return found


@pytest.mark.parametrize("hours", [1.0, -1.0])
def test_a_running_process_reads_the_step_sleeps_on_and_reads_the_true_time_again(
    clocks: Clocks, hours: float
) -> None:
    def wrong_s() -> float:
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        seconds, nanoseconds_as_s, slept = json.loads(process.stdout.readline())  # type: ignore[union-attr]
        assert abs(nanoseconds_as_s - seconds) < 60
        assert 0.05 <= slept < 60
        return float(seconds - time.time())

    def until_wrong_by(expected_s: float) -> None:
        deadline = time.monotonic() + 30
        while abs(wrong_s() - expected_s) > 60:
            assert time.monotonic() < deadline, "the step was never seen"

    with started(READS, clocks) as process:
        until_wrong_by(0.0)
        clocks.step("one", hours)
        until_wrong_by(hours * 3_600)
        clocks.step("one", 0.0)
        until_wrong_by(0.0)
        process.stdin.close()  # type: ignore[union-attr]


def test_a_kafka_client_that_began_with_a_wrong_clock_gives_up_in_its_own_time(clocks: Clocks) -> None:
    """Seed 5 of `--faults restore,clock,…` found a worker that waited for an hour, by the clock's library."""
    clocks.step("one", 1.0)
    with started(ASKS_NOBODY, clocks) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        clocks.step("one", 0.0)
        try:
            told, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert told == "no answer\n"


def test_processes_whose_clock_nobody_sets_are_told_nothing(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path)
    assert clocks.environment("one") == {}
    assert list(tmp_path.iterdir()) == []
