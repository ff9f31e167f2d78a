"""A batch of outcomes gives each event and each job one row, the highest, and the trace all of them."""

import json
import random
from dataclasses import replace
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Alert, EventOutcome, EventRef, Job, Outcome
from sinks.apply import rows_of
from sinks.prepared import prepare
from sinks.raised import alerts_of
from sinks.rows import AlertRow, as_json

ORGANIZATION = "11111111-1111-4111-8111-111111111111"
CONTACT = "22222222-2222-4222-8222-222222222222"


def job(n: int = 1, *, seq: int = 2, replay: int = 0, kind: str = "inbound_turn", payload: str = "{}") -> Job:
    return Job(
        id=str(UUID(int=n)),
        organization_id=ORGANIZATION,
        contact_id=CONTACT,
        kind=kind,
        source_event_id="e1",
        replay=replay,
        seq=seq,
        created_at_ms=1,
        run_after_ms=2,
        payload=payload,
        events=(EventRef("e1"),),
    )


def outcome(*events: EventOutcome, **changed: object) -> Outcome:
    base = Outcome(
        organization_id=ORGANIZATION,
        contact_id=CONTACT,
        at_ms=1_000,
        stage="decide",
        events=events,
        status="done",
    )
    return msgspec.structs.replace(base, **changed)


def event(name: str = "e1", *, replay: int = 0, seq: int = 1) -> EventOutcome:
    return EventOutcome(event_id=name, replay=replay, seq=seq, attempts=1)


def test_the_highest_replay_and_seq_of_an_event_is_its_row() -> None:
    batch = [
        outcome(event(seq=2), outcome="second"),
        outcome(event(seq=1), outcome="late"),
        outcome(event(seq=1, replay=5), outcome="replayed"),
    ]
    (row,) = rows_of(batch).events
    assert (row.outcome, row.replay, row.seq) == ("replayed", 5, 1)


def test_what_died_after_it_was_done_is_for_the_row_to_refuse_as_it_does_one_by_one() -> None:
    batch = [
        outcome(event(seq=2), outcome="job"),
        outcome(event(seq=1, replay=5), outcome="contact_missing", status="dead"),
    ]
    assert [(row.status, row.replay) for row in rows_of(batch).events] == [("done", 0), ("dead", 5)]
    assert len(prepare(batch).events) == 2, "one after the other"
    assert [row.outcome for row in rows_of(batch[::-1]).events] == ["contact_missing"]


def test_a_group_link_that_is_told_again_takes_no_place_of_what_came_of_it() -> None:
    def told(stage: str, job_status: str, **changed: object) -> Outcome:
        link = msgspec.structs.replace(job(), kind="group_link_template", contact_id=None, **changed)
        return msgspec.structs.replace(outcome(), stage=stage, job=link, job_status=job_status)

    batch = [told("execute", "done", seq=4), told("enqueue", "pending", seq=2, replay=9)]
    assert [(row.status, row.replay) for row in rows_of(batch).group_links] == [("done", 0), ("pending", 9)]
    assert len(prepare(batch).group_links) == 2, "one after the other"


def test_an_equal_pair_is_a_duplicate_and_the_first_stays() -> None:
    (row,) = rows_of([outcome(event(), outcome="first"), outcome(event(), outcome="second")]).events
    assert row.outcome == "first"


@pytest.mark.thorough
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12), st.randoms())
def test_the_order_of_a_batch_does_not_matter(pairs: list[tuple[int, int]], order: random.Random) -> None:
    batch = [outcome(event(seq=seq, replay=replay), outcome=f"{replay}.{seq}") for replay, seq in pairs]
    shuffled = list(batch)
    order.shuffle(shuffled)
    assert rows_of(batch).events == rows_of(shuffled).events


@pytest.mark.thorough
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=12), st.integers(0, 12))
def test_two_batches_end_as_one(pairs: list[tuple[int, int]], cut: int) -> None:
    batch = [outcome(event(seq=seq, replay=replay), outcome=f"{replay}.{seq}") for replay, seq in pairs]
    parts = [*rows_of(batch[:cut]).events, *rows_of(batch[cut:]).events]
    highest = max(parts, key=lambda row: (row.replay, row.seq), default=None)
    assert rows_of(batch).events == ([highest] if highest else [])


def test_a_deduplicated_event_goes_to_the_trace_alone() -> None:
    rows = rows_of([outcome(event(seq=9), outcome="deduplicated")])
    assert rows.events == rows.settled == []
    assert [trace.outcome for trace in rows.traces] == ["deduplicated"]


def test_a_deduplicated_event_whose_job_was_found_can_end_a_row_that_an_older_system_left_open() -> None:
    facts = '{"jobs": {"e1": "j1", "e2": null}}'
    batch = [outcome(event("e1"), event("e2"), event("e3"), outcome="deduplicated", facts=facts)]
    rows = rows_of(batch)
    assert rows.events == []
    assert [(row.event_id, row.job_id) for row in rows.settled] == [("e1", "j1")]
    assert rows_of([outcome(event(), outcome="deduplicated", facts="[]")]).settled == []


def test_the_trace_tells_every_step_but_the_same_step_once() -> None:
    step = outcome(event("e1"), event("e2"), job=job(), job_status="pending", job_id=job().id)
    rows = rows_of([step, step, outcome(event("e1", seq=3))])
    assert [(trace.event_id, trace.seq) for trace in rows.traces] == [
        ("e1", 1), ("e2", 1), (None, 2), ("e1", 3),
    ]  # fmt: skip
    assert [trace.n for trace in rows.traces] == [0, 0, 0, 2]


def test_an_outcome_about_neither_event_nor_job_is_told_once() -> None:
    (trace,) = rows_of([outcome(stage="execute")]).traces
    assert (trace.event_id, trace.job_id, trace.stage) == (None, None, "execute")


def test_a_jobs_whole_row_comes_from_the_highest_outcome() -> None:
    batch = [
        outcome(job=job(seq=3), job_status="done"),
        outcome(job=job(seq=2), job_status="running"),
    ]
    rows = rows_of(batch)
    assert [(row.status, row.seq) for row in rows.jobs] == [("done", 3)]
    assert rows.running == []


def test_running_jobs_are_apart_so_that_they_are_written_last() -> None:
    rows = rows_of([outcome(job=job(1), job_status="running"), outcome(job=job(2), job_status="done")])
    assert [row.status for row in rows.running] == ["running"]
    assert [row.status for row in rows.jobs] == ["done"]


def test_a_job_without_a_status_is_pending() -> None:
    assert [row.status for row in rows_of([outcome(job=job())]).jobs] == ["pending"]


def test_jobs_that_the_crms_workers_run_are_apart_with_when_they_were_told() -> None:
    theirs = msgspec.structs.replace(job(1), run_by="table")
    batch = [outcome(job=job(2)), outcome(job=theirs), outcome(job=theirs), outcome(job=job(3))]
    rows = rows_of(batch)
    assert [(row.id, row.at_ms) for row in rows.handed_over] == [(theirs.id, 1_000)]
    assert [row.id for row in rows.jobs] == [job(2).id, job(3).id]


def test_group_links_have_a_queue_of_their_own() -> None:
    rows = rows_of([outcome(job=job(kind="group_link_template"), job_status="running")])
    assert rows.jobs == rows.running == []
    assert [row.status for row in rows.group_links] == ["running"]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (f'{{"inbound_message_id":"{CONTACT}","extra":[1]}}', CONTACT),
        ('{"inbound_message_id":"no uuid"}', None),
        ('{"inbound_message_id":7}', None),
        ("[]", None),
        ("no json", None),
    ],
)
def test_a_jobs_trace_names_the_message_it_answers(payload: str, message: str | None) -> None:
    (trace,) = rows_of([outcome(job=job(payload=payload))]).traces
    assert trace.message_id == message


def test_rows_are_written_as_json_without_what_is_null() -> None:
    (row,) = json.loads(as_json(rows_of([outcome(event())]).events))
    assert row == {
        "event_id": "e1",
        "organization_id": ORGANIZATION,
        "contact_id": CONTACT,
        "replay": 0,
        "seq": 1,
        "status": "done",
        "attempts": 1,
    }


OTHER_CONTACT = "33333333-3333-4333-8333-333333333333"


def test_one_id_under_two_contacts_is_told_of_both_and_each_has_its_turn_at_the_row() -> None:
    """Made by hand, decided by two workers in one millisecond: all but the contact is the same."""

    def decided(contact: str) -> Outcome:
        theirs = msgspec.structs.replace(job(), contact_id=contact)
        return outcome(
            event(), contact_id=contact, outcome="job", job=theirs, job_id=theirs.id, job_status="pending"
        )

    prepared = prepare([decided(CONTACT), decided(OTHER_CONTACT), decided(CONTACT)])
    assert [(trace.n, trace.event_id, trace.contact_id) for trace in prepared.rows.traces] == [
        (0, "e1", CONTACT), (0, None, CONTACT), (1, "e1", OTHER_CONTACT), (1, None, OTHER_CONTACT),
    ]  # fmt: skip
    assert [changes.version("e1") for changes in prepared.events] == [(0, 1, CONTACT), (0, 1, OTHER_CONTACT)]
    assert [one.made[job().id].contact_id for one in prepared.jobs] == [CONTACT, OTHER_CONTACT]


def test_what_is_each_ids_alone_is_one_round() -> None:
    prepared = prepare([outcome(event(f"e{n}"), job=job(n)) for n in range(1, 5)])
    assert len(prepared.events) == len(prepared.jobs) == 1


ALERT = Alert(kind="event_dead", title="t", body="first", ref_kind="event", ref_id=str(UUID(int=7)))


def test_alerts_of_one_family_are_one_row_with_a_count_and_the_first_text() -> None:
    batch = [
        outcome(alert=ALERT),
        outcome(alert=msgspec.structs.replace(ALERT, body="second")),
        outcome(alert=msgspec.structs.replace(ALERT, title="another")),
        outcome(alert=ALERT, organization_id=""),
        outcome(),
    ]
    platform, another, family = sorted(
        alerts_of(batch, range(5)), key=lambda row: (row.organization_id or "", row.title)
    )
    assert platform.organization_id is None
    assert (another.title, another.occurrences) == ("another", 1)
    assert family == AlertRow(ORGANIZATION, "event_dead", "t", "first", "event", str(UUID(int=7)), 2)


def test_only_fresh_outcomes_alert() -> None:
    assert [row.occurrences for row in alerts_of([outcome(alert=ALERT)] * 3, {1})] == [1]
    assert alerts_of([outcome(alert=ALERT)], set()) == []


def test_alerts_are_locked_in_one_order_whatever_the_batch() -> None:
    batch = [outcome(alert=msgspec.structs.replace(ALERT, title=title)) for title in "cab"]
    assert [row.title for row in alerts_of(batch, range(3))] == ["a", "b", "c"]


def test_a_reference_that_is_no_uuid_is_left_out() -> None:
    batch = [outcome(alert=msgspec.structs.replace(ALERT, ref_id="window 7"))]
    (row,) = alerts_of(batch, {0})
    assert row == replace(row, ref_id=None)
