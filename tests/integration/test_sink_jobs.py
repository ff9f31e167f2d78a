"""Rows of jobs on a real Postgres: every state, in whatever order its outcomes come."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

from schemas import alert_texts
from schemas.alert_texts import title
from schemas.records import EventOutcome, Job, Outcome
from sinks.failures import Refused
from tests.integration.alert_desk import Desk, desk_database
from tests.integration.crm_tables import crm_database
from tests.integration.sink_lab import until

STATUSES = ("pending", "running", "done", "failed", "dead", "held")


@pytest.fixture(scope="module")
def desk(postgres: str) -> Iterator[Desk]:
    """With the CRM's own index: one running job a contact."""
    with desk_database(postgres) as url:
        made = Desk(url)
        yield made
        made.close()


def new_contact(desk: Desk) -> str:
    contact = str(uuid.uuid4())
    desk.run("INSERT INTO contacts (id, organization_id) VALUES (%s, %s)", contact, desk.organization)
    return contact


def row(desk: Desk, job: str) -> dict[str, Any]:
    """A job's row, `never` due as a column of its own: no datetime is so late."""
    with desk.rows.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(
            "SELECT status, attempts, last_error, locked_by, locked_at, outcome_replay, outcome_seq,"
            " nullif(run_after, 'infinity') AS run_after, run_after = 'infinity' AS never"
            " FROM job_queue WHERE id = %s",
            [job],
        ).fetchone()
        assert found is not None
        return found


# -- one job, state by state


def test_b165_b168_b172_a_start_spends_an_attempt_and_a_retry_shows_when(desk: Desk) -> None:
    job = desk.job()
    desk.tell(desk.step(job, "pending"))
    desk.tell(desk.step(job, "running", attempt=1))
    found = row(desk, job.id)
    assert (found["status"], found["attempts"], found["locked_by"]) == ("running", 1, "agent-engine")
    assert found["locked_at"] is not None
    later = desk.now_ms + 10_000
    desk.tell(desk.step(job, "pending", "retry:http_503", attempt=1, run_after_ms=later))
    found = row(desk, job.id)
    assert (found["status"], found["attempts"], found["locked_by"], found["locked_at"]) == (
        "pending", 1, None, None,
    )  # fmt: skip
    assert found["run_after"].timestamp() * 1000 == pytest.approx(later)
    desk.tell(desk.step(job, "pending", "retry:session", attempt=0, run_after_ms=later + 30_000))
    assert row(desk, job.id)["attempts"] == 0, "an attempt that is given back is given back"


def test_b156_b157_a_held_job_is_pending_and_never_due_until_it_is_released(desk: Desk) -> None:
    job = desk.job()
    desk.tell(desk.step(job, "pending"), desk.step(job, "held", "held:by hand"))
    found = row(desk, job.id)
    assert (found["status"], found["never"], found["locked_by"]) == ("pending", True, None)
    desk.tell(desk.step(job, "pending", "released"))
    assert row(desk, job.id)["never"] is False


def test_b169_b170_a_dead_job_has_its_error_and_one_alert_with_the_count(desk: Desk) -> None:
    jobs = [desk.job() for _ in range(3)]
    for job in jobs:
        alert = alert_texts.job_dead(job, "HTTP 500 from the engine")
        desk.tell(
            desk.step(job, "pending"),
            msgspec.structs.replace(
                desk.step(job, "dead", "dead:http_500", alert, attempt=5),
                last_error="HTTP 500 from the engine",
            ),
        )
    found = row(desk, jobs[0].id)
    assert (found["status"], found["attempts"], found["last_error"]) == (
        "dead",
        5,
        "HTTP 500 from the engine",
    )
    assert [(kind, status, count) for kind, status, count in desk.inbox()] == [(title("job_dead"), "open", 3)]


def test_b171_a_veto_is_failed_without_an_alert(desk: Desk) -> None:
    before = desk.inbox()
    job = desk.job()
    desk.tell(desk.step(job, "pending"), desk.step(job, "failed", "vetoed:not any more"))
    assert row(desk, job.id)["status"] == "failed"
    assert desk.inbox() == before


def test_a_requeued_job_is_the_runs_and_no_late_word_of_its_first_life_changes_it(desk: Desk) -> None:
    job = desk.job()
    desk.tell(desk.step(job, "pending"), desk.step(job, "dead", "dead:x", attempt=5))
    late = desk.step(job, "running", attempt=5)
    desk.tell(desk.step(job, "pending", attempt=0, replay=1_790_000_000_000))
    desk.tell(late)
    found = row(desk, job.id)
    assert (found["status"], found["attempts"], found["outcome_replay"]) == ("pending", 0, 1_790_000_000_000)


@pytest.mark.parametrize(
    ("status", "shown", "never"),
    [
        ("pending", "pending", False), ("running", "processing", False), ("done", "sent", False),
        ("failed", "failed", False), ("dead", "failed", False), ("held", "pending", True),
    ],
)  # fmt: skip
def test_a_group_links_states_in_its_own_queue(desk: Desk, status: str, shown: str, never: bool) -> None:
    job = desk.job("group_link_template")
    desk.run(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language) VALUES (%s, %s, %s, 'personal', '+551', 'l', 't', 'pt_BR')",
        job.id, desk.organization, job.id,
    )  # fmt: skip
    told = msgspec.structs.replace(
        desk.step(job, status, attempt=2, run_after_ms=desk.now_ms + 60_000), last_error="HTTP 500",
        result='{"provider_message_id": "wamid.1", "more": [1]}' if status == "done" else None,
    )  # fmt: skip
    desk.tell(told)
    desk.tell(desk.step(job, "running", seq=1))  # late
    ((found, attempts, never_due, message, error),) = desk.run(
        "SELECT status, attempts, available_at = 'infinity', provider_message_id, last_error"
        " FROM group_link_dispatch_queue WHERE id = %s", job.id,
    )  # fmt: skip
    assert (found, attempts, never_due, error) == (shown, 2, never, "HTTP 500")
    assert message == ("wamid.1" if status == "done" else None)


@pytest.mark.parametrize("result", [None, "[]", "{no json", '{"provider_message_id": 7}'])
def test_a_result_of_another_shape_is_no_message_id(desk: Desk, result: str | None) -> None:
    job = desk.job()
    desk.tell(msgspec.structs.replace(desk.step(job, "done"), result=result))
    assert row(desk, job.id)["status"] == "done"


def test_b166_b167_what_a_worker_tells_that_lost_the_job_changes_nothing(desk: Desk) -> None:
    """Its transitions are below those of the owner that took the job over, which begin above the head's."""
    job = desk.job()
    desk.tell(desk.step(job, "running", attempt=1))
    late_done, late_failed = desk.step(job, "done", "done"), desk.step(job, "failed", "vetoed:x")
    desk.tell(desk.step(job, "pending", "retry:worker_lost", attempt=1))
    desk.tell(desk.step(job, "running", attempt=2))
    before = row(desk, job.id)
    desk.tell(late_done)
    desk.tell(late_failed)
    assert row(desk, job.id) == before and before["status"] == "running"
    desk.tell(desk.step(job, "done", "done", attempt=2))
    desk.tell(desk.step(job, "dead", "dead:x", seq=before["outcome_seq"]))
    assert row(desk, job.id)["status"] == "done"


# -- merges and covers


def moved(desk: Desk, event: str, survivor: Job, seq: int) -> Outcome:
    """What the executor tells of the events of a job that another took over."""
    return Outcome(
        organization_id=desk.organization, contact_id=desk.contact, at_ms=desk.now_ms, stage="execute",
        events=(EventOutcome(event_id=event, seq=seq, attempts=1),), status="done", outcome="job",
        job_id=survivor.id, last_error="HTTP 500",
    )  # fmt: skip


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_a_merge_moves_the_events_to_the_survivor_and_changes_nothing_else_of_them(
    desk: Desk, together: bool, late: bool
) -> None:
    event, one, two = desk.event(), desk.job(), desk.job()
    decided = desk.outcome(event, outcome="job", job_id=one.id, job=one, job_status="pending")
    merge = moved(desk, event, two, 1_000)
    outcomes = [merge, decided] if late else [decided, merge]
    outcomes += [desk.step(one, "done", f"merged:{two.id}"), desk.step(two, "running")]
    if together:
        desk.tell(*outcomes)
    else:
        for outcome in outcomes:
            desk.tell(outcome)
    ((status, outcome_, job_id, error, attempts, seq),) = desk.run(
        "SELECT status, outcome, job_id::text, last_error, attempts, outcome_seq FROM event_log"
        " WHERE id = %s",
        event,
    )
    assert (status, outcome_, job_id, error, seq) == ("done", "job", two.id, None, 1_000)
    assert attempts == (1 if late and not together else 5)
    assert row(desk, one.id)["status"] == "done"
    traced = desk.run("SELECT job_id::text, stage FROM rajada.trace WHERE event_id = %s ORDER BY seq", event)
    assert traced == [(one.id, "decide"), (two.id, "execute")]
    desk.tell(desk.step(two, "done", "done"))


# -- whatever order they come in


@dataclass(frozen=True)
class Told:
    job: int
    replay: int
    seq: int
    status: str
    at_ms: int


def _transition(one: Told) -> tuple[int, int, int]:
    return (one.job, one.replay, one.seq)


told = st.builds(
    Told, job=st.integers(0, 1), replay=st.sampled_from((0, 0, 0, 5)), seq=st.integers(2, 7),
    status=st.sampled_from(STATUSES), at_ms=st.integers(1, 50),
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(told, min_size=1, max_size=14, unique_by=lambda one: (one.job, one.replay, one.seq)), st.data()
)
def test_b161_any_interleaving_of_two_jobs_of_a_contact_ends_in_the_rows_of_the_highest(
    desk: Desk, steps: list[Told], data: st.DataObject
) -> None:
    """The CRM's index, one running job a contact, never stops the sink."""
    contact = new_contact(desk)
    jobs = [desk.job(contact_id=contact) for _ in range(2)]
    again = data.draw(st.lists(st.sampled_from(steps), max_size=4), label="sent twice")
    order = data.draw(st.permutations([*steps, *again]), label="order")
    for batch in _cut(order, data.draw(st.randoms(use_true_random=False), label="batches")):
        desk.tell(*(_outcome(desk, jobs[one.job], one) for one in batch))
    highest = [
        max((one for one in steps if one.job == n), key=lambda one: (one.replay, one.seq), default=None)
        for n in range(2)
    ]
    found = [row(desk, jobs[n].id) if one else None for n, one in enumerate(highest)]
    both_run = all(one is not None and one.status == "running" for one in highest)
    for one, shown in zip(highest, found, strict=True):
        if one is None or shown is None:
            continue
        assert (shown["outcome_replay"], shown["outcome_seq"], shown["attempts"]) == (
            one.replay, one.seq, one.seq,
        )  # fmt: skip
        assert shown["never"] == (one.status == "held")
        if not both_run:
            assert shown["status"] == ("pending" if one.status == "held" else one.status)
    if both_run:
        assert sorted(str(shown["status"]) for shown in found if shown) == ["pending", "running"]


def _outcome(desk: Desk, job: Job, one: Told) -> Outcome:
    moved_on = msgspec.structs.replace(job, seq=one.seq, replay=one.replay, attempt=one.seq)
    return Outcome(
        organization_id=desk.organization, contact_id=job.contact_id, at_ms=desk.now_ms + one.at_ms,
        stage="execute", events=(), status="done", job=moved_on, job_id=job.id, job_status=one.status,
    )  # fmt: skip


def _cut(order: Sequence[Told], dice: random.Random) -> Iterator[Sequence[Told]]:
    start = 0
    while start < len(order):
        end = start + dice.randint(1, 5)
        yield order[start:end]
        start = end


def test_of_many_contacts_each_shows_the_run_that_goes_on(desk: Desk) -> None:
    """All their next jobs start before the first ones' ends are told."""
    contacts = [new_contact(desk) for _ in range(50)]
    first = [desk.job(contact_id=contact) for contact in contacts]
    second = [desk.job(contact_id=contact) for contact in contacts]
    desk.tell(*(desk.step(job, "running", attempt=1) for job in first))
    starts = [desk.step(job, "running", attempt=1) for job in second]
    desk.tell(*starts)
    shown = "SELECT status, count(*) FROM job_queue WHERE id = ANY(%s::uuid[]) GROUP BY 1"
    assert desk.run(shown, [job.id for job in second]) == [("pending", 50)]
    desk.tell(*(desk.step(job, "done", "done") for job in first))
    assert desk.run(shown, [job.id for job in second]) == [("running", 50)]


def test_a_running_job_of_the_crms_own_workers_holds_nothing_up(desk: Desk) -> None:
    contact = new_contact(desk)
    theirs = str(uuid.uuid4())
    desk.run(
        "INSERT INTO job_queue (id, organization_id, contact_id, kind, status, locked_by)"
        " VALUES (%s, %s, %s, 'followup_send', 'running', 'worker-3')", theirs, desk.organization, contact,
    )  # fmt: skip
    job = desk.job(contact_id=contact)
    desk.tell(desk.step(job, "running", attempt=1))
    found = row(desk, job.id)
    assert (found["status"], found["locked_by"]) == ("pending", "agent-engine")
    desk.run("UPDATE job_queue SET status = 'done' WHERE id = %s", theirs)
    desk.tell(desk.step(job, "done", "done"))
    assert row(desk, job.id)["status"] == "done"


def test_a_worker_of_the_crms_that_starts_at_the_same_moment_is_waited_for(desk: Desk) -> None:
    contact = new_contact(desk)
    job = desk.job(contact_id=contact)
    with psycopg.connect(desk.rows.info.dsn) as theirs:
        theirs.execute(
            "INSERT INTO job_queue (id, organization_id, contact_id, kind, status) VALUES (%s, %s, %s, 'k',"
            " 'running')", [str(uuid.uuid4()), desk.organization, contact],
        )  # fmt: skip
        failed: list[Exception] = []

        def write() -> None:
            outcome = desk.step(job, "running", attempt=1)
            try:
                desk.tell(outcome)
            except Refused as error:
                failed.append(error)
                desk.tell(outcome)  # as the sink does with a refused batch

        sink = threading.Thread(target=write)
        sink.start()
        waits = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'rajada-sink' AND wait_event_type = 'Lock'"
        )
        until(lambda: desk.run(waits), "the sink waits for their row")
        theirs.commit()
        sink.join(10)
    assert [type(one).__name__ for one in failed] == ["Refused"]
    assert row(desk, job.id)["status"] == "pending"


def test_a_crm_without_the_index_shows_two_runs_as_one(postgres: str) -> None:
    with crm_database(postgres, f"loose_{uuid.uuid4().hex[:10]}") as url:
        loose = Desk(url)
        one, two = loose.job(), loose.job()
        loose.tell(loose.step(one, "running"), loose.step(two, "running"))
        assert [row(loose, job.id)["status"] for job in (one, two)] == ["pending", "running"]
        loose.tell(loose.step(two, "done"))
        assert row(loose, one.id)["status"] == "running"
        loose.close()
