"""The life of an alert with every process running: opened by deaths, resolved by a requeue and a drop."""

from __future__ import annotations

import pytest

from ops.clinic import Clinic, Connection, Message
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from schemas.alert_texts import title
from tests.e2e.conftest import MakeProcesses
from tests.e2e.test_operator import rajada, told
from tests.e2e.waiting import until, value

ALERT = "SELECT status FROM agent_inbox_items WHERE kind = 'job_dead' ORDER BY created_at"
DEAD = "SELECT count(*) FROM job_queue WHERE status = 'dead'"


@pytest.mark.long
def test_an_alert_opens_with_a_death_and_resolves_itself_when_all_is_answered(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside
) -> None:
    running = processes(
        AGENT_ENGINE_URL=engine.url, RAJADA_PERSON_SPACING_MS="0", RAJADA_ALERTS_EVERY_S="0.5"
    )
    running.start("relay", "worker", "sink", "delays")
    clinic = Clinic.found(connection, debounce_ms=300)
    engine.treat(Scenario(mode="fail", status=422))
    for patient in clinic.register(connection, ["Ana", "Bia"]):
        clinic.write(connection, [Message(patient)])
    until(lambda: value(connection, DEAD) == 2)

    (alert,) = told(running, "alerts")
    assert (alert["title"], alert["occurrences"], alert["status"]) == (title("job_dead"), 2, "open")
    assert alert["organization_id"] == clinic.organization_id
    (one, two) = told(running, "jobs", "ls", "--status", "dead")
    story = rajada(running, "jobs", "show", one["id"])
    for words in ("attempt 1 begins", "the job is given up", "the server answered 422", "an alert opens:"):
        assert words in story, story
    assert "is ack now" in rajada(running, "alerts", "ack", alert["id"])

    engine.treat(Scenario())
    assert told(running, "dlq", "requeue", "--id", one["id"], "--yes")["requeued"] == 1
    until(lambda: value(connection, DEAD) == 1)
    assert value(connection, ALERT) == "ack", "one of them is still dead"
    dropped = rajada(running, "dlq", "drop", "--id", two["id"], "--because", "the customer called", "--yes")
    assert "1" in dropped
    until(lambda: value(connection, ALERT) == "resolved")
    assert told(running, "alerts") == []
    assert "answered after" in rajada(running, "why", one["id"])
