"""The reconciler as a process: `faust -A streams.reconcile worker`, ordered about by `rajada reconcile`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import status
from ops.clinic import Connection
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value
from tests.integration.reconcile import provider as stand_in

NAME = "reconciler"
FAUST = [sys.executable, "-m", "faust", "-A", "streams.reconcile", "worker", "--without-web"]
EVERY_SECOND = {"RAJADA_RECONCILE_CRON": "* * * * * *", "RAJADA_RECONCILE_JITTER_S": "0"}
NEVER = {"RAJADA_RECONCILE_CRON": "0 0 29 2 *"}
TOPIC = "conect-whatsapp-reconciliation-queue"


@pytest.fixture
def made(processes: MakeProcesses) -> MakeProcesses:
    def make(**settings: str) -> Processes:
        running: Processes = processes(RAJADA_RECONCILE_LEASE_S="3", **settings)
        running.commands[NAME] = FAUST
        return running

    return make


@pytest.fixture
def provider() -> Iterator[stand_in.Provider]:
    with stand_in.serving() as running:
        yield running


def stuck(connection: Connection, count: int = 1, state: str = "provisioning") -> None:
    connection.execute(
        "INSERT INTO connect.whatsapp_instances (organization_id, state, state_since)"
        " SELECT %s, %s, now() - interval '1 day' FROM generate_series(1, %s)",
        [UUID(int=7), state, count],
    )


def states(connection: Connection) -> dict[Any, Any]:
    return dict(
        connection.execute("SELECT state, count(*) FROM connect.whatsapp_instances GROUP BY 1").fetchall()
    )


def ends(connection: Connection) -> list[Any]:
    return [state for (state,) in connection.execute("SELECT state FROM connect.firings ORDER BY began_at")]


def told(finished: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(finished.stdout)


def test_instances_heal_or_fail_on_schedule_and_a_notification_opens_and_resolves_itself(
    made: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = made(**EVERY_SECOND)
    running.start(NAME)
    stuck(connection, 3)
    stuck(connection, 2, "deprovisioning")
    until(lambda: states(connection) == {"provisioning_failed": 3, "archived": 2})
    opened = "SELECT count(*) FROM connect.active_notifications WHERE kind = 'whatsapp_failed'"
    until(lambda: value(connection, opened) == 3)
    connection.execute(
        "UPDATE connect.whatsapp_instances SET state = 'connected' WHERE state = 'provisioning_failed'"
    )
    until(lambda: value(connection, opened) == 0)
    assert set(ends(connection)[:-1]) == {"done"}
    admin = AdminClient({"bootstrap.servers": kafka})

    def groups() -> set[str]:
        return {group.group_id for group in admin.list_consumer_groups().result(30).valid}

    until(lambda: f"{prefix}yzex-conect" in groups())  # an application of its own
    until(lambda: (status.read_counters(running.status, NAME) or pytest.fail()).values.get("moved") == 5)
    assert running.kill(NAME, signal.SIGTERM) == 0


@pytest.mark.long
def test_orders_from_kafka_and_from_the_command_line(
    made: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = made(**NEVER)
    assert running.rajada("reconcile", "--history").stdout == "There was no run yet.\n"
    running.start(NAME)
    assert ends(connection) == [], "nothing runs that nobody asked for"
    stuck(connection, 2)
    plan = told(running.rajada("reconcile", "--dry-run", "--json"))
    assert plan["moves"] == {"provisioning": 2} and plan["opens"] == {"whatsapp_stuck": 2}
    assert states(connection) == {"provisioning": 2} and ends(connection) == []

    first = told(running.rajada("reconcile", "--json"))
    assert (first["kind"], first["state"], first["moved"], first["opened"]) == ("asked", "done", 2, 2)
    assert first["facts"] == {"moved": {"provisioning_took_too_long": 2}}

    # what is no order holds nothing up, and one that comes twice is one
    producer, again = Producer({"bootstrap.servers": kafka}), uuid4()
    order = json.dumps({"request": str(again)}).encode()
    for record in (b"\xff\xff", b"[]", None, order, order, b'{"request": 7}', b"{}"):
        producer.produce(f"{prefix}{TOPIC}", record)
    producer.flush(10)
    last = told(running.rajada("reconcile", "--json"))
    assert last["state"] == "done"
    asked = "SELECT count(*), count(firing) FROM connect.requests"
    assert connection.execute(asked).fetchone() == (4, 4), "two by hand, the twin, and the one without a name"
    told_of = [
        json.loads(line) for line in running.log(NAME).read_text().splitlines() if "trigger_un" in line
    ]
    assert len(told_of) == 3

    once = running.rajada("reconcile", "--once")
    assert once.returncode == 0 and once.stdout.startswith("0 instances moved")
    history = running.rajada("reconcile", "--history").stdout
    assert "asked" in history and "once" in history and history.count("done") == len(ends(connection))


def test_without_a_reconciler_an_order_waits_and_once_needs_neither_it_nor_kafka(
    made: MakeProcesses, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = made(**NEVER)
    stuck(connection)
    running.environment["KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:9"
    once = running.rajada("reconcile", "--once")
    assert once.returncode == 0 and once.stdout.startswith("1 instance moved"), once.stderr
    connection.execute(
        "UPDATE connect.schedules SET firing = %s, run_until = now() + interval '1 min'", [uuid4()]
    )
    busy = running.rajada("reconcile", "--once")
    assert busy.returncode == 5 and "A run goes on" in busy.stderr
    running.environment["DATABASE_URL"] = "postgresql://postgres@127.0.0.1:9/x"
    away = running.rajada("reconcile", "--once")
    assert away.returncode == 7 and "Postgres does not answer" in away.stderr


def test_an_order_that_nobody_takes_says_what_to_do(
    made: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = made(**NEVER)
    assert running.rajada("topics", "ensure").returncode == 0
    late = running.rajada("reconcile", "--wait", "1")
    assert late.returncode == 11 and "rajada reconcile --once" in late.stderr
    running.start(NAME)  # the order has stayed
    until(lambda: ends(connection) == ["done"])


def test_the_schedule_goes_on_while_kafka_is_away(made: MakeProcesses, connection: Connection) -> None:
    running = made(**EVERY_SECOND)
    running.environment["KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:9"
    stuck(connection, 4)
    running.spawn(NAME)
    until(lambda: states(connection) == {"provisioning_failed": 4})
    until(lambda: "done" in ends(connection))

    def says() -> bool:
        said = status.read(running.status, NAME)
        return said is not None and said.state == "waiting" and "Kafka does not answer" in said.reason

    until(says)
    assert running.kill(NAME, signal.SIGTERM) == 0
    assert "running" not in ends(connection)


@pytest.mark.slow  # on a busy machine the run may end before the kill comes; tests/integration has BR-59, too
def test_br_59_after_kill_9_in_the_middle_of_a_run_another_one_completes_it(
    made: MakeProcesses, connection: Connection, provider: stand_in.Provider
) -> None:
    provider.answer = lambda name: None  # it holds its leases, and waits
    stuck(connection, 8)
    first = made(**EVERY_SECOND, WHATSAPP_PROBE_URL=provider.url, WHATSAPP_PROBE_TIMEOUT_S="1.4")
    first.start(NAME)
    until(lambda: provider.asked)
    first.kill(NAME, signal.SIGKILL)
    killed = time.monotonic()
    second = made(**EVERY_SECOND)
    second.start(NAME)
    until(lambda: states(connection) == {"provisioning_failed": 8})
    assert time.monotonic() - killed < 30
    moves = "SELECT count(*) = 8 AND count(DISTINCT instance_id) = 8 FROM connect.whatsapp_moves"
    assert value(connection, moves) is True
    assert "lost" in ends(connection)


def test_a_stop_in_the_middle_of_a_run_gives_its_leases_back(
    made: MakeProcesses, connection: Connection, provider: stand_in.Provider
) -> None:
    provider.answer = lambda name: None
    stuck(connection, 8)
    running = made(
        **EVERY_SECOND,
        WHATSAPP_PROBE_URL=provider.url,
        WHATSAPP_PROBE_TIMEOUT_S="10",
        WHATSAPP_PROBE_CONCURRENCY="64",
    )
    running.environment["RAJADA_RECONCILE_LEASE_S"] = "60"
    running.start(NAME)
    until(lambda: provider.asked)
    began = time.monotonic()
    assert running.kill(NAME, signal.SIGTERM) == 0
    assert time.monotonic() - began < 10
    assert ends(connection) == ["stopped"]
    free = "SELECT count(*) FROM connect.whatsapp_instances WHERE locked_until IS NULL"
    assert value(connection, free) == 8
    assert value(connection, "SELECT run_until <= now() FROM connect.schedules") is True


def test_a_reconciler_on_a_database_that_is_not_migrated_says_so(made: MakeProcesses, database: str) -> None:
    running = made(**EVERY_SECOND)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA connect CASCADE")
        connection.execute("DELETE FROM rajada._yoyo_migration WHERE migration_id LIKE 'connect-%'")
    running.spawn(NAME)

    def says() -> bool:
        said = status.read(running.status, NAME)
        return said is not None and said.state == "waiting" and "rajada migrate" in said.reason

    until(says)
    assert running.rajada("reconcile", "--once").returncode == 3
    assert running.rajada("migrate").returncode == 0
    running.wait_ready(NAME)
