"""Jobs that the CRM's own workers run: the sink hands each row over once and never touches it again."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import msgspec
import psycopg
import pytest

from schemas.records import EventOutcome, Job, Outcome
from settings import Settings
from tests.integration.sink_lab import Lab


@pytest.fixture
def lab(kafka: str, database: str, prefix: str) -> Iterator[Lab]:
    made = Lab(database, kafka, Settings(topic_prefix=prefix, session_timeout_s=2.0))
    yield made
    made.close()


REPLAY = 1_790_000_000_000


def handed_over(lab: Lab, event: str, **changed: object) -> tuple[Job, Outcome]:
    """A job for the table, and the outcome that tells it."""
    job = lab.job(event, run_by="table", **changed)
    told = EventOutcome(event_id=event, replay=job.replay, seq=job.seq - 1, attempts=1)
    return job, lab.outcome(told, outcome="job", job_id=job.id, job=job, job_status="pending")


def rows(lab: Lab) -> list[tuple[object, ...]]:
    """Every job row, whole."""
    return lab.execute("SELECT to_jsonb(j) FROM job_queue j ORDER BY id")


def test_a_row_is_pending_and_due_by_the_databases_clock_in_the_order_of_the_decisions(lab: Lab) -> None:
    now_ms = time.time_ns() // 1_000_000
    decided = {"past": now_ms - 5_000, "later": now_ms - 4_000, "clock ahead": now_ms + 3_600_000}
    jobs = {}
    with lab.sink():
        for name, at_ms in decided.items():
            jobs[name], outcome = handed_over(lab, lab.event(), run_after_ms=at_ms, created_at_ms=at_ms)
            lab.send(outcome)
        lab.until_caught_up()
    for name, job in jobs.items():
        row = lab.job_row(job.id)
        assert row is not None
        assert (row["status"], row["attempts"], row["max_attempts"], row["priority"]) == (
            "pending",
            0,
            5,
            100,
        )
        assert (row["locked_by"], row["locked_at"], row["last_error"]) == (None, None, None)
        assert str(row["source_event_id"]) == job.source_event_id
        assert row["run_after"].timestamp() == pytest.approx(
            min(decided[name] / 1000, time.time()), abs=0.01 if name != "clock ahead" else 30
        )
    due = lab.execute("SELECT id::text FROM job_queue WHERE run_after <= now() ORDER BY run_after")
    assert [id_ for (id_,) in due] == [job.id for job in jobs.values()]


CHANGES = {
    "claimed": "status = 'running', attempts = 1, locked_by = 'crm-1', locked_at = now()",
    "done": "status = 'done', attempts = 1",
    "to be tried again": "attempts = 1, run_after = now() + interval '20 s', last_error = 'HTTP 503'",
    "put off, attempt given back": "attempts = 0, run_after = now() + interval '30 s'",
    "held": "run_after = 'infinity', payload = payload || '{\"held\": 1}'",
    "cancelled": "status = 'failed', attempts = 1",
    "dead": "status = 'dead', attempts = 5, last_error = 'gave up'",
    "deleted": None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_the_crm_made_of_a_row_outcomes_sent_again_leave_it_so(lab: Lab, change: str) -> None:
    event = lab.event()
    job, outcome = handed_over(lab, event)
    with lab.sink():
        lab.send(outcome)
        lab.until_caught_up()
        if CHANGES[change] is None:
            lab.execute("DELETE FROM job_queue WHERE id = %s", job.id)
        else:
            lab.execute(f"UPDATE job_queue SET {CHANGES[change]} WHERE id = %s", job.id)
        before = rows(lab)
        lab.send(outcome, outcome)
        again = [{"replay": REPLAY}, {"replay": REPLAY, "seq": 40}]
        if change != "deleted":  # only a replay may tell a job anew; against more than that the row guards
            again.append({"seq": job.seq + 5})
        for number in again:
            lab.send(handed_over(lab, event, id=job.id, source_event_id=event, **number)[1])
        lab.until_caught_up()
        assert rows(lab) == before
    with lab.sink():
        lab.send(outcome)
        lab.until_caught_up()
    assert rows(lab) == before
    assert lab.dead_letters() == []


def test_a_sink_that_reads_everything_again_brings_no_row_back(lab: Lab) -> None:
    jobs = []
    with lab.sink():
        for _ in range(6):
            job, outcome = handed_over(lab, lab.event())
            jobs.append(job)
            lab.spread([outcome])
        lab.until_caught_up()
    lab.execute("UPDATE job_queue SET status = 'done' WHERE id = ANY (%s::uuid[])", [j.id for j in jobs[:2]])
    lab.execute("DELETE FROM job_queue WHERE id = ANY (%s::uuid[])", [j.id for j in jobs[2:4]])
    before = rows(lab)
    lab.execute("UPDATE rajada.sink_offsets SET next_offset = 0")
    with lab.sink():
        lab.until_caught_up()
    assert rows(lab) == before


def test_workers_that_claim_while_the_sink_writes_keep_what_they_did(lab: Lab) -> None:
    """Each outcome is sent three times, in batches that overlap with the claims."""
    outcomes = [handed_over(lab, event)[1] for event in (lab.event() for _ in range(200))]
    stop = threading.Event()

    def work() -> None:
        with psycopg.connect(lab.url, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute(
                    "UPDATE job_queue SET status = 'done', attempts = attempts + 1, locked_by = 'crm-1'"
                    " WHERE id IN (SELECT id FROM job_queue WHERE status = 'pending' AND run_after <= now()"
                    " LIMIT 7 FOR UPDATE SKIP LOCKED)"
                )
                time.sleep(0.005)

    worker = threading.Thread(target=work)
    with lab.sink():
        worker.start()
        for _ in range(3):
            for part in range(0, 200, 20):
                lab.send(*outcomes[part : part + 20])
        lab.until_caught_up()
        time.sleep(0.3)
        stop.set()
        worker.join()
    assert lab.execute("SELECT status, attempts, count(*) FROM job_queue GROUP BY 1, 2") == [("done", 1, 200)]


def test_another_systems_job_of_the_same_event_keeps_its_row(lab: Lab) -> None:
    event, theirs = lab.event(), str(uuid.uuid4())
    lab.execute(
        "INSERT INTO job_queue (id, organization_id, kind, source_event_id, status)"
        " VALUES (%s, %s, 'inbound_turn', %s, 'done')", theirs, lab.organization, event,
    )  # fmt: skip
    with lab.sink():
        lab.send(handed_over(lab, event)[1])
        lab.until_caught_up()
    assert lab.execute("SELECT id::text, status FROM job_queue") == [(theirs, "done")]
    assert lab.dead_letters() == []


def test_a_job_that_the_lanes_ran_keeps_being_told_by_them_beside_those_of_the_table(lab: Lab) -> None:
    """The setting changed while outcomes were on their way: each job goes by what it carries."""
    first, second = lab.event(), lab.event()
    ours = lab.job(first)
    theirs, outcome = handed_over(lab, second)
    with lab.sink():
        lab.send(lab.outcome(first, outcome="job", job_id=ours.id, job=ours, job_status="pending"), outcome)
        lab.until_caught_up()
        ended = msgspec.structs.replace(ours, seq=9, attempt=1)
        lab.send(lab.outcome(stage="execute", outcome="job", job=ended, job_status="done"))
        lab.until_caught_up()
    states = {str(id_): state for id_, state in lab.execute("SELECT id, status FROM job_queue")}
    assert states == {ours.id: "done", theirs.id: "pending"}
