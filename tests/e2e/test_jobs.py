"""From a message to an answered turn: the whole way, with real processes and a real HTTP engine."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from ops.clinic import Clinic, Connection, Message
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

WINDOW_MS = 300

JOB = "SELECT status, attempts, last_error FROM job_queue WHERE source_event_id = %s"


@pytest.fixture
def running(processes: MakeProcesses, engine: EngineBeside) -> Iterator[Processes]:
    """All processes, with an engine that answers."""
    made = processes(AGENT_ENGINE_URL=engine.url, RAJADA_PERSON_SPACING_MS="0", RAJADA_STOP_GRACE_S="1")
    made.start("relay", "worker", "sink", "delays")
    yield made


def row(connection: Connection, event_id: str) -> tuple[str, int, str | None] | None:
    return connection.execute(JOB, [event_id]).fetchone()  # type: ignore[return-value]


def test_a_burst_is_answered_once_and_its_row_says_so(
    running: Processes, connection: Connection, engine: EngineBeside
) -> None:
    clinic = Clinic.found(connection, debounce_ms=3_000)  # so that one window holds the burst anywhere
    (ana,) = clinic.register(connection, ["Ana"])
    burst = [clinic.write(connection, [Message(ana)])[0] for _ in range(4)]
    until(lambda: row(connection, burst[0].event_id) == ("done", 1, None))
    (asked,) = engine.requests(contact_id=ana.contact_id)
    assert asked.attempt == 1
    assert list(engine.effects().values()) == [1]


def test_a_failed_attempt_comes_back_through_the_delay_topics(
    running: Processes, connection: Connection, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="rate", retry_after="1", times=1))
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    (ana,) = clinic.register(connection, ["Ana"])
    (written,) = clinic.write(connection, [Message(ana)])
    until(lambda: (row(connection, written.event_id) or ("",))[0] == "done", 30)
    first, second = engine.requests(contact_id=ana.contact_id)
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.at_ms - first.at_ms >= 1_000


def test_a_job_that_can_not_be_done_is_a_dead_letter_with_one_alert(
    running: Processes, connection: Connection, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="fail", status=422))
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    for patient in clinic.register(connection, [f"p{n}" for n in range(20)]):
        clinic.write(connection, [Message(patient)])
    until(lambda: value(connection, "SELECT count(*) FROM job_queue WHERE status = 'dead'") == 20)
    alerts = connection.execute(
        "SELECT occurrences FROM agent_inbox_items WHERE kind = 'job_dead' AND status = 'open'"
    ).fetchall()
    assert alerts == [(20,)]


def test_a_worker_killed_during_the_call_spends_the_attempt_and_the_next_one_answers(
    running: Processes, connection: Connection, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="hang", times=1))
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    (ana,) = clinic.register(connection, ["Ana"])
    (written,) = clinic.write(connection, [Message(ana)])
    until(lambda: len(engine.requests(contact_id=ana.contact_id)) == 1)
    running.kill("worker", signal.SIGKILL)
    running.start("worker")
    until(lambda: (row(connection, written.event_id) or ("",))[0] == "done", 40)
    assert [one.attempt for one in engine.requests(contact_id=ana.contact_id)] == [1, 2]


def test_a_graceful_stop_hands_a_running_job_back(
    running: Processes, connection: Connection, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="hang", times=1))
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    (ana,) = clinic.register(connection, ["Ana"])
    (written,) = clinic.write(connection, [Message(ana)])
    until(lambda: len(engine.requests(contact_id=ana.contact_id)) == 1)
    began = time.monotonic()
    running.kill("worker", signal.SIGTERM)
    assert time.monotonic() - began < 10
    running.start("worker")
    until(lambda: row(connection, written.event_id) == ("done", 1, None), 40)
    assert [one.attempt for one in engine.requests(contact_id=ana.contact_id)] == [1, 1]


@pytest.mark.long
def test_without_an_engine_jobs_are_held_and_run_when_there_is_one(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside
) -> None:
    made = processes(RAJADA_JOBS_PAUSED="0")
    made.start()
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    (ana,) = clinic.register(connection, ["Ana"])
    (written,) = clinic.write(connection, [Message(ana)])
    held = "SELECT run_after = 'infinity' FROM job_queue WHERE source_event_id = %s AND status = 'pending'"
    until(lambda: value(connection, held, written.event_id) is True)
    made.kill("worker", signal.SIGTERM)
    made.environment["AGENT_ENGINE_URL"] = engine.url
    made.start("worker")
    until(lambda: row(connection, written.event_id) == ("done", 1, None))
