"""The sink against a real Kafka and a real Postgres: what it writes."""

from __future__ import annotations

import json
import uuid

import msgspec
import pytest

from schemas.records import Alert, EventOutcome, Outcome
from streams.identifiers import job_id
from tests.integration.sink_lab import Lab


def test_an_outcome_becomes_the_state_of_its_events_its_job_and_the_trace(lab: Lab) -> None:
    first, second = lab.event(), lab.event()
    message, conversation = str(uuid.uuid4()), str(uuid.uuid4())
    payload = {"event_ids": [first, second], "inbound_message_id": message, "conversation_id": conversation}
    job = lab.job(first, payload=json.dumps(payload))
    outcome = lab.outcome(
        first,
        second,
        outcome="job",
        job_id=job.id,
        job=job,
        job_status="pending",
        facts='{"stop": null, "n": 1}',
    )
    with lab.sink():
        lab.send(outcome)
        lab.until_caught_up()
    for event in (first, second):
        row = lab.row(event)
        assert row["status"] == "done"
        assert row["outcome"] == "job"
        assert str(row["job_id"]) == job.id
        assert row["attempts"] == 1
        assert row["last_error"] is None
        assert row["next_attempt_at"] is None
        assert row["consumed_by"] == ["agent-engine"]
        assert (row["outcome_replay"], row["outcome_seq"]) == (0, 1)
        assert row["updated_at"] > row["created_at"]
    written = lab.job_row(job.id)
    assert written is not None
    assert str(written["contact_id"]) == lab.contact
    assert (written["kind"], written["status"], written["priority"]) == ("inbound_turn", "pending", 100)
    assert str(written["source_event_id"]) == first
    assert written["payload"] == payload
    assert written["run_after"].timestamp() == pytest.approx(job.run_after_ms / 1000)
    assert written["created_at"].timestamp() == pytest.approx(job.created_at_ms / 1000)
    assert (written["attempts"], written["max_attempts"]) == (0, 5)
    assert (written["outcome_replay"], written["outcome_seq"]) == (0, 2)
    traces = lab.execute(
        "SELECT event_id::text, job_id::text, message_id::text, stage, status, outcome, seq, facts"
        " FROM rajada.trace ORDER BY event_id IS NULL, seq"
    )
    messages = {
        event: lab.value("SELECT payload ->> 'inbound_message_id' FROM event_log WHERE id = %s", event)
        for event in (first, second)
    }
    facts = {"stop": None, "n": 1}
    assert sorted(traces[:2]) == sorted(
        (event, job.id, messages[event], "decide", "done", "job", 1, facts | {"attempts": 1})
        for event in (first, second)
    )
    assert traces[2:] == [(None, job.id, message, "decide", "pending", "job", 2, facts | {"attempts": 0})]


def test_a_retry_is_visible_and_its_end_clears_it(lab: Lab) -> None:
    event = lab.event()
    retry = lab.outcome(
        EventOutcome(event_id=event, seq=1, attempts=2), status="pending", outcome=None,
        last_error="contact_missing", next_attempt_at_ms=1_790_000_000_000,
    )  # fmt: skip
    with lab.sink():
        lab.send(retry)
        lab.until_caught_up()
        row = lab.row(event)
        assert (row["status"], row["attempts"], row["last_error"]) == ("pending", 2, "contact_missing")
        assert row["next_attempt_at"].timestamp() == 1_790_000_000
        lab.send(lab.outcome(EventOutcome(event_id=event, seq=2, attempts=3)))
        lab.until_caught_up()
    row = lab.row(event)
    assert (row["status"], row["attempts"], row["last_error"], row["next_attempt_at"]) == (
        "done",
        3,
        None,
        None,
    )
    assert row["consumed_by"] == ["agent-engine"]


@pytest.mark.parametrize("together", [True, False])
def test_only_a_higher_replay_or_seq_changes_a_row_in_whatever_order_they_come(
    lab: Lab, together: bool
) -> None:
    event = lab.event()
    steps = [(0, 2), (0, 1), (0, 3), (0, 3), (1_790_000_000_000, 1), (0, 9), (1_790_000_000_000, 1)]
    outcomes = [
        lab.outcome(
            EventOutcome(event_id=event, replay=replay, seq=seq),
            outcome=f"step {n}",
            at_ms=1_790_000_000_000 + n,
        )
        for n, (replay, seq) in enumerate(steps)
    ]
    seen = []
    if together:
        lab.send(*outcomes)
    with lab.sink():
        for outcome in outcomes:
            if not together:
                lab.send(outcome)
                lab.until_caught_up()
                seen.append(lab.row(event)["outcome"])
        lab.until_caught_up()
    assert lab.row(event)["outcome"] == "step 4"
    if not together:
        assert seen == ["step 0", "step 0", "step 2", "step 2", "step 4", "step 4", "step 4"]
    assert lab.value("SELECT count(*) FROM rajada.trace WHERE event_id = %s", event) == len(steps)


def test_an_outcome_sent_twice_leaves_one_trace_one_alert_and_one_row(lab: Lab) -> None:
    event = lab.event()
    job = lab.job(event)
    alert = Alert(kind="event_dead", title="t", body="b")
    outcome = lab.outcome(event, status="dead", outcome=None, alert=alert, job=job)
    with lab.sink():
        lab.send(outcome, outcome)
        lab.until_caught_up()
        lab.send(outcome, partition=1)
        lab.until_caught_up()
    assert lab.value("SELECT count(*) FROM rajada.trace") == 2
    assert lab.execute("SELECT occurrences, severity, status FROM agent_inbox_items") == [
        (1, "critical", "open")
    ]


def test_events_without_a_row_and_deduplicated_ones_stand_in_the_trace_alone(lab: Lab) -> None:
    known, stranger = lab.event(), str(uuid.uuid4())
    foreign = lab.event()
    other_organization = str(uuid.uuid4())
    with lab.sink():
        lab.send(
            lab.outcome(EventOutcome(event_id=known, seq=7), outcome="deduplicated"),
            lab.outcome(stranger),
            lab.outcome(foreign, organization_id=other_organization),
        )
        lab.until_caught_up()
    for untouched in (known, foreign):
        row = lab.row(untouched)
        assert (row["status"], row["outcome"], row["consumed_by"]) == ("pending", None, [])
    told = {event for (event,) in lab.execute("SELECT event_id::text FROM rajada.trace")}
    assert told == {known, stranger, foreign}


def test_a_job_goes_through_its_states_and_shows_who_runs_it(lab: Lab) -> None:
    event = lab.event()
    job = lab.job(event)

    def step(seq: int, state: str, attempt: int, **changed: object) -> None:
        moved = msgspec.structs.replace(job, seq=seq, attempt=attempt)
        lab.send(lab.outcome(stage="execute", outcome="job", job=moved, job_status=state, **changed))
        lab.until_caught_up()

    with lab.sink():
        step(2, "pending", 0)
        step(3, "running", 1)
        row = lab.job_row(job.id)
        assert row is not None
        assert (row["status"], row["locked_by"], row["attempts"]) == ("running", "agent-engine", 1)
        assert row["locked_at"] is not None
        step(4, "pending", 1, last_error="HTTP 503")
        row = lab.job_row(job.id)
        assert row is not None
        assert (row["status"], row["locked_by"], row["locked_at"]) == ("pending", None, None)
        assert row["last_error"] == "HTTP 503"
        step(3, "running", 1)
        assert lab.job_row(job.id) == row
        step(5, "done", 2)
    row = lab.job_row(job.id)
    assert row is not None
    assert (row["status"], row["attempts"], row["last_error"], row["outcome_seq"]) == ("done", 2, None, 5)


def test_the_turn_goes_from_one_job_of_a_contact_to_the_next_in_one_batch(lab: Lab) -> None:
    one, two = lab.job(lab.event()), lab.job(lab.event())

    def state(job: object, seq: int, status: str) -> object:
        return lab.outcome(job=msgspec.structs.replace(job, seq=seq), job_status=status, stage="execute")

    with lab.sink():
        lab.send(state(one, 2, "running"))
        lab.until_caught_up()
        # the index of the CRM allows one running row of a contact
        lab.send(state(two, 2, "running"), state(one, 3, "done"))
        lab.until_caught_up()
        three = lab.job(lab.event())
        lab.send(state(three, 2, "running"))
        lab.until_caught_up()
    states = [lab.job_row(job.id)["status"] for job in (one, two, three)]
    assert states == ["done", "running", "pending"]
    assert lab.dead_letters() == []


def test_a_job_whose_contact_or_organization_is_gone_does_not_hold_its_event(lab: Lab) -> None:
    event = lab.event()
    job = lab.job(event, contact_id=str(uuid.uuid4()))
    with lab.sink():
        lab.send(lab.outcome(event, outcome="job", job_id=job.id, job=job))
        lab.until_caught_up()
    assert lab.row(event)["outcome"] == "job"
    assert lab.job_row(job.id) is None
    assert lab.dead_letters() == []


def test_another_systems_job_of_the_same_event_keeps_its_row(lab: Lab) -> None:
    event = lab.event()
    theirs = str(uuid.uuid4())
    lab.execute(
        "INSERT INTO job_queue (id, organization_id, kind, source_event_id, status)"
        " VALUES (%s, %s, 'inbound_turn', %s, 'done')", theirs, lab.organization, event,
    )  # fmt: skip
    ours = lab.job(event)
    with lab.sink():
        lab.send(lab.outcome(event, outcome="job", job_id=ours.id, job=ours))
        lab.until_caught_up()
    assert lab.execute("SELECT id::text, status FROM job_queue") == [(theirs, "done")]
    assert lab.dead_letters() == []


def decided(lab: Lab, event: str, contact: str, **changed: object) -> Outcome:
    """A window of one event under a contact became a job, whose id follows from the event alone."""
    payload = json.dumps({"contact_id": contact, "event_ids": [event]})
    job = lab.job(event, id=job_id(lab.organization, event), contact_id=contact, payload=payload)
    told = {"outcome": "job", "job_id": job.id, "job": job, "job_status": "pending", "contact_id": contact}
    return lab.outcome(event, **(told | changed))


def another_contact(lab: Lab) -> str:
    name = str(uuid.uuid4())
    lab.execute("INSERT INTO contacts (id, organization_id) VALUES (%s, %s)", name, lab.organization)
    return name


@pytest.mark.parametrize("run_by", ["lanes", "table"])
@pytest.mark.parametrize("together", [True, False])
def test_one_id_under_two_contacts_is_one_row_and_the_second_is_told(
    lab: Lab, together: bool, run_by: str
) -> None:
    """Two workers decided in the same millisecond, before the sink had told either of the other."""
    event, second, at_ms = str(uuid.uuid4()), another_contact(lab), 1_790_000_000_000
    both = [decided(lab, event, contact, at_ms=at_ms) for contact in (lab.contact, second)]
    both = [msgspec.structs.replace(one, job=msgspec.structs.replace(one.job, run_by=run_by)) for one in both]
    twin = both[1].job
    assert twin is not None
    ended = msgspec.structs.replace(twin, seq=9, attempt=1, run_by="lanes")
    if together:
        lab.send(*both)
    with lab.sink():
        if not together:
            lab.send(both[0])
            lab.until_caught_up()
            lab.send(both[1], partition=1)
        lab.until_caught_up()
        before = lab.job_row(twin.id)
        for _ in range(2):  # what is sent twice is told once
            lab.send(
                both[1],
                lab.outcome(
                    stage="execute", outcome="done", job=ended, job_status="done", contact_id=second,
                    at_ms=at_ms + 1,
                ),
            )  # fmt: skip
            lab.until_caught_up()
    assert before is not None and str(before["contact_id"]) == lab.contact
    assert lab.job_row(twin.id) == before, "a run under the second contact is not the row's"
    told = lab.execute(
        "SELECT contact_id::text, outcome, job_id::text, facts -> 'of_another_contact', facts -> 'jobs'"
        " FROM rajada.trace WHERE event_id = %s ORDER BY contact_id::text = %s", event, second,
    )  # fmt: skip
    assert told == [
        (lab.contact, "job", twin.id, None, None),
        (second, "deduplicated", None, [event], {event: twin.id}),
    ]
    runs = lab.execute(
        "SELECT contact_id::text, status, facts -> 'of_another_contact' FROM rajada.trace"
        " WHERE job_id = %s AND event_id IS NULL ORDER BY seq, contact_id::text = %s", twin.id, second,
    )  # fmt: skip
    assert runs == [(lab.contact, "pending", None), (second, "pending", True), (second, "done", True)]
    assert lab.dead_letters() == []


def test_a_job_goes_on_when_the_crm_merges_its_contact_into_another(lab: Lab) -> None:
    event, merged = str(uuid.uuid4()), another_contact(lab)
    outcome = decided(lab, event, lab.contact)
    job = outcome.job
    assert job is not None
    with lab.sink():
        lab.send(outcome)
        lab.until_caught_up()
        lab.execute("UPDATE job_queue SET contact_id = %s WHERE id = %s", merged, job.id)
        ended = msgspec.structs.replace(job, seq=3, attempt=1)
        lab.send(lab.outcome(stage="execute", outcome="done", job=ended, job_status="done"))
        lab.until_caught_up()
    row = lab.job_row(job.id)
    assert row is not None and (row["status"], str(row["contact_id"])) == ("done", merged)
    assert lab.value("SELECT count(*) FROM rajada.trace WHERE facts ? 'of_another_contact'") == 0


@pytest.mark.parametrize("status", ["done", "dead"])
def test_an_outcome_under_another_contact_leaves_an_events_row_alone(lab: Lab, status: str) -> None:
    """An id of the log that somebody used by hand before the log had it."""
    event, second = str(uuid.uuid4()), another_contact(lab)
    lab.execute(
        "INSERT INTO event_log (id, organization_id, event_type, payload)"
        " VALUES (%s, %s, 'ai_agent.dispatch_requested', %s)",
        event, lab.organization, json.dumps({"contact_id": lab.contact}),
    )  # fmt: skip
    theirs = EventOutcome(event_id=event, seq=7)
    with lab.sink():
        lab.send(lab.outcome(theirs, contact_id=second, status=status, outcome="no_published_agent"))
        lab.until_caught_up()
        assert lab.row(event)["status"] == "pending"
        lab.send(
            lab.outcome(event, outcome="too_old"),
            lab.outcome(EventOutcome(event_id=event, seq=9), contact_id=second, status=status),
        )
        lab.until_caught_up()
    row = lab.row(event)
    assert (row["status"], row["outcome"], row["outcome_seq"]) == ("done", "too_old", 1)
    assert lab.value("SELECT count(*) FROM rajada.trace WHERE event_id = %s", event) == 3


@pytest.mark.parametrize("older_system", [True, False])
def test_a_done_event_stays_done_when_a_window_dies_that_holds_it_again(lab: Lab, older_system: bool) -> None:
    """A poison window can't ask what came of its replayed events: it dies with all that it holds."""
    event, other = lab.event(), lab.event()
    replay = 1_790_000_000_000
    alert = Alert(kind="event_dead", title="t", body="b")
    again, new = EventOutcome(event_id=event, replay=replay, seq=1), EventOutcome(event_id=other, seq=1)
    dying = {"status": "pending", "outcome": None, "last_error": "22P02"}
    with lab.sink():
        if older_system:
            lab.execute("UPDATE event_log SET status = 'done' WHERE id = %s", event)
        else:
            lab.send(lab.outcome(event, outcome="job"))
            lab.until_caught_up()
        before = lab.row(event)
        lab.send(lab.outcome(again, new, **dying))
        lab.until_caught_up()
        assert (lab.row(event), lab.row(other)["last_error"]) == (before, "22P02")
        steps = [msgspec.structs.replace(one, seq=5, attempts=5) for one in (again, new)]
        lab.send(lab.outcome(*steps, status="dead", outcome="sqlstate_22P02", alert=alert))
        lab.until_caught_up()
    assert lab.row(event) == before
    assert lab.row(other)["status"] == "dead"
    told = lab.execute("SELECT event_id::text FROM rajada.trace WHERE status = 'dead'")
    assert {name for (name,) in told} == {event, other}, "what happened is told all the same"


def test_a_group_link_told_again_under_a_replay_number_makes_no_sent_row_pending(lab: Lab) -> None:
    link, event = str(uuid.uuid4()), str(uuid.uuid4())
    lab.execute(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language) VALUES (%s, %s, 'e', 'personal', '+551', 'l', 't', 'pt_BR')",
        link, lab.organization,
    )  # fmt: skip
    job = lab.job(event, id=link, kind="group_link_template", contact_id=None)
    status = "SELECT status FROM group_link_dispatch_queue"

    def told(**changed: object) -> Outcome:
        moved = msgspec.structs.replace(job, **changed)
        return lab.outcome(contact_id=None, stage="enqueue", job=moved, job_status="pending")

    with lab.sink():
        lab.send(told())
        lab.until_caught_up()
        assert lab.value(status) == "pending"
        sent = msgspec.structs.replace(job, seq=4, attempt=1)
        lab.send(lab.outcome(contact_id=None, stage="execute", job=sent, job_status="done"))
        lab.send(told(replay=1_790_000_000_000))
        lab.until_caught_up()
    assert lab.value(status) == "sent"


def test_a_group_links_row_is_kept_in_its_own_queue(lab: Lab) -> None:
    link = str(uuid.uuid4())
    lab.execute(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language) VALUES (%s, %s, 'e', 'personal', '+551', 'l', 't', 'pt_BR')",
        link, lab.organization,
    )  # fmt: skip
    job = lab.job(str(uuid.uuid4()), id=link, kind="group_link_template", contact_id=None, attempt=1)
    with lab.sink():
        lab.send(
            lab.outcome(
                contact_id=None,
                stage="execute",
                job=job,
                job_status="done",
                result='{"provider_message_id": "w1"}',
            )
        )
        lab.until_caught_up()
    assert lab.execute("SELECT status, attempts, provider_message_id FROM group_link_dispatch_queue") == [
        ("sent", 1, "w1")
    ]
    assert lab.value("SELECT count(*) FROM job_queue") == 0
