"""`rajada why` on a running system: each way that a message can go is told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from ops.clinic import Clinic, Connection, Message
from tests.command_line import run_rajada
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

STATUS = "SELECT status FROM event_log WHERE id = %s"


def run(running: Processes, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_rajada("why", *arguments, env={**running.environment, "COLUMNS": "160"})


def why(running: Processes, asked: str) -> Mapping[str, Any]:
    """The story as programs read it."""
    done = run(running, asked, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["notes"] == []
    return told


def outcomes(told: Mapping[str, Any]) -> list[str]:
    return [step["outcome"] for step in told["steps"] if step["outcome"]]


@pytest.mark.long
def test_each_way_that_a_message_can_go_is_told(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes(RAJADA_RETRY_DELAY_MS="50")
    running.start()
    clinic = Clinic.found(connection, debounce_ms=3_000)
    ana, bia, caio = clinic.register(connection, ["Ana", "Bia", "Caio"])

    # in a window, then in a job: by the event, the message, the job and the contact
    burst = [clinic.write(connection, [Message(ana)])[0] for _ in range(3)]
    until(lambda: value(connection, STATUS, burst[-1].event_id) == "done")
    job_id = value(connection, "SELECT job_id::text FROM event_log WHERE id = %s", burst[0].event_id)
    for asked, kind in [
        (burst[1].event_id, "event"),
        (burst[1].message_id, "message"),
        (str(job_id), "job"),
        (ana.contact_id, "contact"),
    ]:
        told = why(running, asked)
        assert (told["kind"], told["ids"]["job"], told["ids"]["contact"]) == (kind, job_id, ana.contact_id)
        assert outcomes(told) == ["job"]
        assert [step["what"] for step in told["steps"]][-1] == "decided"
        assert told["steps"][-1]["title"] == "one job for 3 messages"
        assert told["now"][-1]["state"] == "ready"
    shown = run(running, burst[1].event_id).stdout
    assert "its window of 3.0 s opens" in shown and "waits for its turn to run" in shown

    # a photo that nobody has read yet
    (photo,) = clinic.write(connection, [Message(bia, "image", "https://files/1.jpg")])
    until(lambda: waits(running, photo.event_id, "waits_for_media"), every=0.5)
    (now,) = why(running, bia.contact_id)["now"]
    assert now["state"] == "waits_for_media" and now["at_ms"]
    connection.execute("UPDATE messages SET media_derived_status = 'ready'")
    until(lambda: value(connection, STATUS, photo.event_id) == "done")

    # a stop, with what was seen
    connection.execute("UPDATE organizations SET status = 'suspended'")
    (stopped,) = clinic.write(connection, [Message(caio)])
    until(lambda: value(connection, STATUS, stopped.event_id) == "done")
    told = why(running, stopped.event_id)
    assert outcomes(told) == ["org_not_operating"] and told["now"] == []
    assert "organization status: suspended" in told["steps"][-1]["details"]
    connection.execute("UPDATE organizations SET status = 'active'")

    # a payload outside the contract
    invalid = str(uuid4())
    connection.execute(
        "INSERT INTO event_log (id, organization_id, event_type, payload)"
        " VALUES (%s, %s, 'ai_agent.dispatch_requested', '{\"conversation_id\": 7}')",
        [invalid, clinic.organization_id],
    )
    until(lambda: value(connection, STATUS, invalid) == "done")
    told = why(running, invalid)
    assert outcomes(told) == ["invalid_payload"]
    assert any("not a" in line for line in told["steps"][-1]["details"])

    # five failures and a dead letter
    (lost,) = clinic.write(connection, [Message(caio)])
    ghost = str(uuid4())
    payload = json.dumps(
        {
            "conversation_id": caio.conversation_id,
            "contact_id": ghost,
            "channel_session_id": clinic.session_id,
            "inbound_message_id": lost.message_id,
        }
    )
    dead = str(uuid4())
    until(lambda: value(connection, STATUS, lost.event_id) == "done")
    connection.execute(
        "INSERT INTO event_log (id, organization_id, event_type, payload)"
        " VALUES (%s, %s, 'ai_agent.dispatch_requested', %s)",
        [dead, clinic.organization_id, payload],
    )
    until(lambda: value(connection, STATUS, dead) == "dead")
    told = why(running, dead)
    assert [step["what"] for step in told["steps"]].count("failed") == 4
    assert outcomes(told)[-2:] == ["contact_missing", "contact_missing"]
    assert {step["what"] for step in told["steps"][-3:]} == {"decided", "dead_letter", "alert"}

    # produced by hand: no row in the event log, found by the trace, by its message too
    by_hand, message_id = str(uuid4()), str(uuid4())
    row = {
        "id": by_hand,
        "organization_id": clinic.organization_id,
        "event_type": "ai_agent.dispatch_requested",
        "payload": {**json.loads(payload), "contact_id": ana.contact_id, "inbound_message_id": message_id},
    }
    key = f"{clinic.organization_id}:{ana.contact_id}"
    producer = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    producer.produce(f"{prefix}ai_agent.dispatch_requested", json.dumps(row), key)
    producer.flush(10)
    until(lambda: value(connection, "SELECT count(*) FROM rajada.trace WHERE event_id = %s", by_hand) == 1)
    assert outcomes(why(running, message_id)) == outcomes(why(running, by_hand)) != []


def waits(running: Processes, event_id: str, state: str) -> bool:
    return [now["state"] for now in why(running, event_id)["now"]] == [state]


@pytest.mark.long
def test_what_has_not_arrived_and_what_nobody_knows(processes: MakeProcesses, connection: Connection) -> None:
    running = processes()
    running.start("worker", "sink")  # no relay: CDC is behind
    clinic = Clinic.found(connection, debounce_ms=50_000)
    (ana,) = clinic.register(connection, ["Ana"])
    (written,) = clinic.write(connection, [Message(ana)])
    (now,) = why(running, written.event_id)["now"]
    assert now["state"] == "unpublished" and "the sweep publishes it again at" in now["text"]
    running.start("relay")
    until(lambda: waits(running, written.message_id, "open_window"), every=0.2)

    unknown = str(uuid4())
    done = run(running, unknown)
    assert done.returncode == 1
    assert f"Nothing is known of {unknown}." in done.stdout
    assert "rajada.trace" in done.stdout and "dispatch.dead" in done.stdout
    assert json.loads(run(running, unknown, "--json").stdout)["found"] is False
    assert run(running, "ana").returncode == 2

    running.environment["KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:1"
    partly = run(running, written.event_id)
    assert partly.returncode == 0
    assert "written to the event log" in partly.stdout and "What is going on now is not told" in partly.stdout
