"""What an operator does at three in the morning, with every process running: requeue, replay, orders."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from ops.clinic import Clinic, Connection, Message, Patient, Written
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from tests.command_line import RAJADA, run_rajada
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

WINDOW_MS = 300
STATUS = "SELECT status FROM event_log WHERE id = %s"
JOB_STATUS = "SELECT status FROM job_queue WHERE source_event_id = %s"
JOB_ID = "SELECT id::text FROM job_queue WHERE source_event_id = %s"
JOBS = "SELECT count(*) FROM job_queue"


@pytest.fixture
def running(processes: MakeProcesses, engine: EngineBeside) -> Iterator[Processes]:
    """All processes, with an engine that answers, and decisions that fail quickly."""
    made = processes(
        AGENT_ENGINE_URL=engine.url,
        RAJADA_PERSON_SPACING_MS="0",
        RAJADA_STOP_GRACE_S="1",
        RAJADA_RETRY_DELAY_MS="50",
        RAJADA_SESSION_TIMEOUT_S="8",
    )
    made.start("relay", "worker", "sink", "delays")
    yield made


@pytest.fixture
def clinic(connection: Connection) -> Clinic:
    return Clinic.found(connection, debounce_ms=WINDOW_MS)


def rajada(running: Processes, *arguments: str, code: int = 0) -> str:
    """What a command says; it must end with that exit code."""
    done = run_rajada(*arguments, env={**running.environment, "COLUMNS": "200"})
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout + done.stderr


def job_of(connection: Connection, written: Written) -> str:
    """The job of a message; its row may come later than its request or its dead letter."""
    until(lambda: value(connection, JOB_ID, written.event_id) is not None)
    return str(value(connection, JOB_ID, written.event_id))


def told(running: Processes, *arguments: str) -> Any:
    return json.loads(rajada(running, *arguments, "--json"))


def with_ghosts(connection: Connection, clinic: Clinic, patient: Patient, count: int) -> list[str]:
    """Events that die, since their contact is not there: each of another contact, of one conversation."""
    (lost,) = clinic.write(connection, [Message(patient)])
    events = []
    for _ in range(count):
        payload = {
            "conversation_id": patient.conversation_id,
            "contact_id": str(uuid4()),
            "channel_session_id": clinic.session_id,
            "inbound_message_id": lost.message_id,
        }
        events.append(str(uuid4()))
        connection.execute(
            "INSERT INTO event_log (id, organization_id, event_type, payload)"
            " VALUES (%s, %s, 'ai_agent.dispatch_requested', %s)",
            [events[-1], clinic.organization_id, json.dumps(payload)],
        )
    dead = "SELECT count(*) FROM event_log WHERE id = ANY (%s::uuid[]) AND status = 'dead'"
    until(lambda: value(connection, dead, events) == count)
    return events


def mend(connection: Connection, clinic: Clinic, events: list[str]) -> None:
    """Now the contacts are there."""
    connection.execute(
        "INSERT INTO contacts (id, organization_id)"
        " SELECT (payload ->> 'contact_id')::uuid, %s FROM event_log WHERE id = ANY (%s::uuid[])",
        [clinic.organization_id, events],
    )


@pytest.mark.long
def test_dead_events_are_requeued_through_kills_and_each_is_answered_once(
    running: Processes, connection: Connection, clinic: Clinic, engine: EngineBeside
) -> None:
    """BR-45 with the worker: whatever was copied twice, stop 0 and the identity of events make it one."""
    (ana,) = clinic.register(connection, ["Ana"])
    events = with_ghosts(connection, clinic, ana, 40)
    until(lambda: told(running, "dlq", "ls")["letters"] == 40)
    mend(connection, clinic, events)
    command = [*RAJADA, "dlq", "requeue", "--reason", "contact_missing", "--yes", "--rate", "20"]
    progress = "SELECT coalesce(max((progress ->> 'requeued')::int), 0) FROM rajada.replays"
    for _ in range(2):
        process = subprocess.Popen(command, env=running.environment, stdout=subprocess.DEVNULL)
        before = value(connection, progress)
        until(lambda seen=before: value(connection, progress) != seen)
        process.send_signal(signal.SIGKILL)
        process.wait()
    rajada(running, *command[len(RAJADA) :])
    done = (
        "SELECT count(*) FROM event_log WHERE id = ANY (%s::uuid[]) AND status = 'done' AND outcome = 'job'"
    )
    until(lambda: value(connection, done, events) == 40)
    number = value(connection, "SELECT replay FROM rajada.replays")
    replayed = "SELECT DISTINCT outcome_replay FROM event_log WHERE id = ANY (%s::uuid[])"
    assert connection.execute(replayed, [events]).fetchall() == [(number,)]
    until(lambda: value(connection, "SELECT count(*) FROM job_queue WHERE status = 'done'") == 41)
    assert set(engine.effects().values()) == {1} and len(engine.effects()) == 41
    assert told(running, "dlq", "ls")["letters"] == 0

    # once more, though all is done: stop 0 finds it
    assert told(running, "dlq", "requeue", "--all", "--closed", "--yes")["requeued"] == 40
    known = "SELECT count(*) FROM rajada.trace WHERE outcome = 'deduplicated' AND event_id = ANY (%s::uuid[])"
    until(lambda: value(connection, known, events) == 40)
    assert value(connection, JOBS) == 41 and len(engine.effects()) == 41


@pytest.mark.long
def test_a_job_that_keeps_dying_is_parked_and_one_that_is_mended_is_answered(
    running: Processes, connection: Connection, clinic: Clinic, engine: EngineBeside
) -> None:
    """BR-43 with the executor: the count travels with the job."""
    ana, bia = clinic.register(connection, ["Ana", "Bia"])
    engine.treat(Scenario(mode="fail", status=422))
    (bad,) = clinic.write(connection, [Message(ana)])
    (good,) = clinic.write(connection, [Message(bia)])
    until(lambda: told(running, "dlq", "ls", "--stage", "execute")["letters"] == 2)
    job, other = job_of(connection, bad), job_of(connection, good)
    engine.treat(Scenario(mode="ok"), who=other)
    assert told(running, "dlq", "requeue", "--id", other, "--yes")["requeued"] == 1
    until(lambda: value(connection, JOB_STATUS, good.event_id) == "done")
    for n in (1, 2, 3):
        assert told(running, "dlq", "requeue", "--id", job, "--yes")["requeued"] == 1
        requests = 1 + n
        until(lambda count=requests: len(engine.requests(job_id=job)) == count)
        where = ["--parking"] if n == 3 else []
        until(lambda at=where: told(running, "dlq", "ls", "--id", job, *at)["letters"] == 1)
    assert told(running, "dlq", "ls")["letters"] == 0, "parked as it died, so that no selection takes it"
    assert told(running, "dlq", "requeue", "--all", "--dry-run")["letters"] == 0
    (shown,) = [one for one in told(running, "dlq", "show", job) if one["place"].startswith("parking")]
    assert (shown["replays"], shown["kind"], shown["job_id"]) == (3, "inbound_turn", job)
    assert "time 3 of 3" in " ".join(shown["way"])
    engine.treat(Scenario(mode="ok"))
    assert told(running, "dlq", "requeue", shown["place"], "--yes")["requeued"] == 1
    until(lambda: value(connection, JOB_STATUS, bad.event_id) == "done")


def test_a_replay_changes_nothing_and_again_makes_new_jobs(
    running: Processes, connection: Connection, clinic: Clinic, engine: EngineBeside
) -> None:
    """BR-52: the last events once more, no new job; only --again answers again."""
    patients = clinic.register(connection, [f"p{n}" for n in range(10)])
    written = [clinic.write(connection, [Message(one)])[0].event_id for one in patients]
    until(lambda: value(connection, "SELECT count(*) FROM job_queue WHERE status = 'done'") == 10)
    run = told(running, "replay", "ai_agent.dispatch_requested", "--from-time", "1h", "--yes")
    assert run["sent"] == 10
    known = "SELECT count(*) FROM rajada.trace WHERE outcome = 'deduplicated' AND replay = %s"
    until(lambda: value(connection, known, run["run"]) == 10)
    assert value(connection, JOBS) == 10 and sum(engine.effects().values()) == 10
    again = told(running, "replay", "ai_agent.dispatch_requested", "--from-time", "1h", "--again", "--yes")
    assert (again["sent"], again["skipped"]) == (10, {"twice": 10})
    until(lambda: value(connection, "SELECT count(*) FROM job_queue WHERE status = 'done'") == 20)
    named = "SELECT count(*) FROM job_queue WHERE payload ->> 'replay_of' = ANY (%s)"
    assert value(connection, named, written) == 10
    # and the outcomes: Postgres is as it was
    before = connection.execute("SELECT id, status, outcome_seq FROM job_queue ORDER BY id").fetchall()
    assert told(running, "replay", "dispatch.outcomes", "--from-time", "1h", "--yes")["sent"] > 40
    time.sleep(1)
    assert (
        connection.execute("SELECT id, status, outcome_seq FROM job_queue ORDER BY id").fetchall() == before
    )


def test_orders_are_carried_out_and_told(
    running: Processes, connection: Connection, clinic: Clinic, engine: EngineBeside
) -> None:
    ana, bia, caio = clinic.register(connection, ["Ana", "Bia", "Caio"])
    engine.treat(Scenario(mode="hang"), who=ana.contact_id)
    (running_turn,) = clinic.write(connection, [Message(ana)])
    until(lambda: len(engine.requests(contact_id=ana.contact_id)) == 1)
    job = job_of(connection, running_turn)
    said = rajada(running, "jobs", "cancel", job, "--yes", "--reason", "by hand", "--wait")
    assert "now failed" in said
    until(lambda: value(connection, JOB_STATUS, running_turn.event_id) == "failed")
    assert "means nothing to job" in rajada(running, "jobs", "hold", job, code=10)

    engine.treat(Scenario(mode="rate", retry_after="600", times=1), who=bia.contact_id)
    (delayed,) = clinic.write(connection, [Message(bia)])
    later = "SELECT run_after > now() + interval '1 minute' FROM job_queue WHERE source_event_id = %s"
    until(lambda: value(connection, later, delayed.event_id) is True)
    job = job_of(connection, delayed)
    assert "now held" in rajada(running, "jobs", "hold", job, "--wait")
    infinite = "SELECT run_after = 'infinity' FROM job_queue WHERE source_event_id = %s"
    until(lambda: value(connection, infinite, delayed.event_id) is True)
    order = str(uuid4())
    for _ in range(2):  # given twice, carried out once
        rajada(running, "jobs", "release", job, "--wait", "--order", order)
    until(lambda: value(connection, JOB_STATUS, delayed.event_id) == "done")
    assert len(engine.requests(contact_id=bia.contact_id)) == 2

    rajada(running, "pause", "--organization", clinic.organization_id, "--reason", "incident", "--wait")
    (kept,) = clinic.write(connection, [Message(caio)])
    until(lambda: value(connection, JOB_STATUS, kept.event_id) == "pending")
    time.sleep(1)
    assert engine.requests(contact_id=caio.contact_id) == []
    rajada(running, "resume", "--organization", clinic.organization_id, "--wait")
    until(lambda: value(connection, JOB_STATUS, kept.event_id) == "done")
    assert len(engine.requests(contact_id=caio.contact_id)) == 1


def test_rows_that_lost_their_outcomes_are_told_anew_and_what_nobody_knows_is_ended_or_begun(
    running: Processes, connection: Connection, clinic: Clinic, engine: EngineBeside
) -> None:
    ana, bia = clinic.register(connection, ["Ana", "Bia"])
    (written,) = clinic.write(connection, [Message(ana)])
    until(lambda: value(connection, JOB_STATUS, written.event_id) == "done")
    job = job_of(connection, written)
    # as if the sink had never read how it ended
    connection.execute(
        "UPDATE job_queue SET status = 'pending', attempts = 0, outcome_seq = 1, run_after = now()"
        " WHERE id = %s",
        [job],
    )
    never, late = str(uuid4()), str(uuid4())
    for id_ in (never, late):
        connection.execute(
            "INSERT INTO job_queue (id, organization_id, contact_id, kind, source_event_id, payload, status,"
            " run_after, outcome_replay, outcome_seq)"
            " SELECT %s, organization_id, %s, kind, gen_random_uuid(),"
            " jsonb_set(payload, '{contact_id}', to_jsonb(%s::text)), 'pending', now(), 0, 1"
            " FROM job_queue WHERE id = %s",
            [id_, bia.contact_id, bia.contact_id, job],
        )
    assert {*told(running, "jobs", "ask", "--older-s", "0", "--dry-run")["would_ask"]} == {job, never, late}
    found = json.loads(rajada(running, "jobs", "ask", "--older-s", "0", "--json", code=10).splitlines()[0])
    assert found["told"] == {job: "done"} and {*found["unknown"]} == {never, late} and not found["silent"]
    assert value(connection, JOB_STATUS, written.event_id) == "done"
    assert len(engine.requests(contact_id=ana.contact_id)) == 1, "she had her answer"
    assert engine.requests(contact_id=bia.contact_id) == [], "to ask begins nothing"

    ended = told(running, "jobs", "ask", late, "--close", "--yes")
    assert ended["ended"] == {late: "failed"}
    begun = told(running, "jobs", "ask", never, "--run", "--yes")
    assert list(begun["begun"]) == [never]
    until(lambda: value(connection, "SELECT status FROM job_queue WHERE id = %s", never) == "done")
    assert len(engine.requests(contact_id=bia.contact_id)) == 1
    assert "no worker knows it" in rajada(running, "why", late) + rajada(running, "why", never)
    assert "nothing to ask" in rajada(running, "jobs", "ask", "--older-s", "0")
