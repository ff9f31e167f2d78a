"""`rajada demo` ends well: everything is accounted for, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
REASONS = {
    "group_or_missing_conversation",
    "invalid_payload",
    "no_published_agent",
    "not_eligible:human_owner",
    "org_not_operating",
}
"""Stops that come in every run; `superseded_by_newer_inbound` depends on a millisecond."""


def start(home: Path, *arguments: str, **servers: str) -> subprocess.Popen[str]:
    """`rajada demo` squeezed into twelve seconds."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL")
    }
    return subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "demo", "--seconds", "12", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**kept, "RAJADA_HOME": str(home), **servers},
        # a test run in the background hands an ignored Ctrl-C down to its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def finished(demo: subprocess.Popen[str]) -> tuple[str, str]:
    """Output and errors of a demo that ended with 0."""
    out, errors = demo.communicate(timeout=150)
    assert demo.returncode == 0, f"exit code {demo.returncode}\n{out}\n{errors}"
    return out, errors


def all_accounted_for(told: Mapping[str, object]) -> None:
    assert told["right"] is True and told["complete"] is True, told
    assert (told["lost"], told["doubled"], told["noise_lost"]) == ([], [], 0)
    assert (told["unended"], told["misanswered"]) == ([], [])
    stops = {stop["reason"]: stop["messages"] for stop in told["stops"]}  # type: ignore[attr-defined]
    assert stops.keys() >= REASONS
    assert told["dead_letters"] == {"contact_missing": 2, "http_422": 1, "not_json": 1}
    assert told["alerts"] == 2
    messages, in_jobs = told["messages"], told["in_jobs"]
    assert messages == in_jobs + sum(stops.values()) + 2  # type: ignore[operator]  # the two that are dead
    ends: Mapping[str, int] = told["ends"]  # type: ignore[assignment]
    assert sum(ends.values()) == told["jobs"]
    assert (ends["vetoed"], ends["dead"]) == (1, 1)
    assert ends["answered"] == told["answers"] > 10, "the engine's own count"
    # of the vetoed one and the dead one nobody was answered: 1 and 2 messages
    assert told["answered"] == in_jobs - 3  # type: ignore[operator]
    assert told["retried"] >= 1  # type: ignore[operator]
    assert told["latency"]["count"] > 5  # type: ignore[index]
    # beside the chats: group links after enrolments, and instances that were stuck
    assert told["links"] == {"enrolled": 6, "again": 1, "sent": 5, "failed": 1, "taken": 5, "wrong": []}
    assert told["instances"] == {
        "stuck": 4, "moved": 4, "open": 1, "resolved": 1,
        "states": {"archived": 1, "connected": 2, "provisioning_failed": 1},
    }  # fmt: skip


def gone(postgres: str, kafka: str, prefix: str, database: str) -> bool:
    """Whether a demo's database, slot and topics are away."""
    with psycopg.connect(postgres) as connection:
        left = connection.execute(
            "SELECT datname FROM pg_database WHERE datname = %(name)s"
            " UNION ALL SELECT slot_name FROM pg_replication_slots WHERE slot_name = %(name)s",
            {"name": database},
        ).fetchall()
    topics = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    return not left and not [name for name in topics if name.startswith(prefix)]


def test_on_given_servers_it_accounts_for_all_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, kafka: str, postgres: str, prefix: str
) -> None:
    servers = {"KAFKA_BOOTSTRAP_SERVERS": kafka, "DATABASE_URL": postgres, "RAJADA_TOPIC_PREFIX": prefix}
    for _ in range(2):
        out, _errors = finished(start(tmp_path / "home", "--json", **servers))
        told = json.loads(out)
        all_accounted_for(told)
        database = told["postgres"].rpartition("/")[2]
        assert database.startswith("rajada_demo_")
        assert gone(postgres, kafka, prefix, database)


def test_embedded_it_can_be_kept_played_again_and_stopped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    try:
        out, _ = finished(start(home, "--keep"))
        (lost,) = [line for line in out.splitlines() if line.startswith("lost")]
        assert lost.split() == ["lost", "0"]
        assert "Still running: Kafka 127.0.0.1:" in out
        out, _ = finished(start(home, "--json"))
        all_accounted_for(json.loads(out))
    finally:
        down = subprocess.run(
            [sys.executable, "-m", "ops.cli", "down"],
            env={**os.environ, "RAJADA_HOME": str(home / "demo")},
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
    assert down.returncode == 0 and "Stopped" in down.stdout, "it was kept, so the second run left it running"


def until_somebody_writes(demo: subprocess.Popen[str]) -> str:
    """Wait for the first message; returns the name of the demo's database."""
    assert demo.stdout is not None
    database = ""
    for line in demo.stdout:
        if found := re.search(r"rajada_demo_\w+", line):
            database = found[0]
        if "Dona Célia" in line:
            break
    assert database
    return database


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(
    tmp_path: Path, kafka: str, postgres: str, prefix: str, how: signal.Signals
) -> None:
    demo = start(
        tmp_path / "home",
        KAFKA_BOOTSTRAP_SERVERS=kafka,
        DATABASE_URL=postgres,
        RAJADA_TOPIC_PREFIX=prefix,
    )
    database = until_somebody_writes(demo)
    time.sleep(1)
    demo.send_signal(how)
    out, _errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "Stopped before its end" in out
    assert gone(postgres, kafka, prefix, database)


def test_what_a_killed_demo_leaves_is_removed_by_the_next(
    tmp_path: Path, kafka: str, postgres: str, prefix: str
) -> None:
    servers = {"KAFKA_BOOTSTRAP_SERVERS": kafka, "DATABASE_URL": postgres, "RAJADA_TOPIC_PREFIX": prefix}
    killed = start(tmp_path / "home", **servers)
    database = until_somebody_writes(killed)
    killed.kill()
    killed.communicate(timeout=30)
    out, _errors = finished(start(tmp_path / "home", "--json", **servers))
    told = json.loads(out)
    all_accounted_for(told)
    assert told["postgres"].rpartition("/")[2] != database
    assert gone(postgres, kafka, prefix, database)
