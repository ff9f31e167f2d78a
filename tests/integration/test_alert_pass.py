"""The alert pass on a real Postgres: what is missing opens, what has healed is resolved (spec, "Alerts")."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from db.queries import load
from schemas import alert_texts
from schemas.alert_texts import title
from tests.integration.alert_desk import AI, Desk, desk_database

EVENT_DEAD, JOB_DEAD, LINK_DEAD = title("event_dead"), title("job_dead"), title("group_link_dead")
RUN = 1_790_000_000_000


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    with desk_database(postgres) as made:
        yield made


@pytest.fixture
def desk(url: str) -> Iterator[Desk]:
    made = Desk(url)
    yield made
    made.close()


@contextmanager
def no_alerts(desk: Desk) -> Iterator[None]:
    """Alerts can't be written."""
    desk.run("ALTER TABLE agent_inbox_items ADD CONSTRAINT no CHECK (false) NOT VALID")
    try:
        yield
    finally:
        desk.run("ALTER TABLE agent_inbox_items DROP CONSTRAINT no")


# -- what is missing


def test_an_alert_that_could_not_be_written_is_opened_with_its_count_and_since_when(desk: Desk) -> None:
    with no_alerts(desk):
        desk.tell(*(desk.death(desk.event()) for _ in range(3)))
        desk.make_round()
        assert desk.inbox() == []
    desk.make_round()
    assert desk.inbox() == [(EVENT_DEAD, "open", 3)]
    (covers,) = desk.run(
        "SELECT bool_and(t.at BETWEEN i.created_at AND i.last_seen_at) AND min(i.created_at) = min(t.at)"
        " FROM agent_inbox_items i, rajada.troubles t"
    )
    assert covers == (True,)
    desk.make_round()
    assert desk.inbox() == [(EVENT_DEAD, "open", 3)], "and is neither counted again nor resolved"


def test_what_an_alert_of_any_status_covers_is_not_missing(desk: Desk) -> None:
    desk.tell(desk.death(desk.event()))
    for status in ("ack", "resolved"):
        desk.run("UPDATE agent_inbox_items SET status = %s", status)
        desk.make_round()
        assert desk.inbox() == [(EVENT_DEAD, status, 1)]


def test_an_alert_of_another_family_or_organization_covers_nothing(desk: Desk) -> None:
    with no_alerts(desk):
        desk.tell(desk.death(desk.event()))
    other = str(uuid.uuid4())
    desk.run("INSERT INTO organizations (id) VALUES (%s)", other)
    for organization, kind, text in (
        (other, "event_dead", EVENT_DEAD), (None, "event_dead", EVENT_DEAD),
        (desk.organization, "job_dead", EVENT_DEAD), (desk.organization, "event_dead", "another"),
    ):  # fmt: skip
        desk.run(
            "INSERT INTO agent_inbox_items (organization_id, kind, title, created_at)"
            " VALUES (%s, %s, %s, now() + interval '1 hour')", organization, kind, text,
        )  # fmt: skip
    desk.make_round()
    found = desk.run(
        "SELECT occurrences FROM agent_inbox_items WHERE organization_id = %s AND kind = 'event_dead'"
        " AND title = %s", desk.organization, EVENT_DEAD,
    )  # fmt: skip
    assert found == [(1,)]


def test_a_death_after_the_last_count_is_counted_up_on_the_open_one(desk: Desk) -> None:
    desk.tell(desk.death(desk.event()))
    with no_alerts(desk):
        desk.tell(desk.death(desk.event()), desk.death(desk.event()))
    desk.make_round()
    assert desk.inbox() == [(EVENT_DEAD, "open", 3)]


# -- what has healed


def test_b120_an_alert_resolves_itself_when_all_that_died_was_requeued_or_dropped(desk: Desk) -> None:
    one, two = desk.event(), desk.event()
    desk.tell(desk.death(one), desk.death(two))
    desk.make_round()
    assert desk.statuses() == ["open"]
    desk.tell(desk.outcome(one, replay=RUN, outcome="job"))
    desk.make_round()
    assert desk.statuses() == ["open"], "one of them is still dead"
    desk.drop("event", two)
    desk.make_round()
    assert desk.inbox() == [(EVENT_DEAD, "resolved", 2)]
    assert desk.run("SELECT resolved_at IS NOT NULL FROM agent_inbox_items") == [(True,)]
    assert desk.troubles() == []
    desk.tell(desk.death(desk.event()))
    desk.make_round()
    assert desk.statuses() == ["resolved", "open"], "the next death opens another"


def test_an_acknowledged_alert_resolves_itself_too(desk: Desk) -> None:
    event = desk.event()
    desk.tell(desk.death(event))
    desk.resolve("ack")
    desk.tell(desk.outcome(event, replay=RUN, outcome="job"))
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_an_acknowledged_alert_is_still_counted(desk: Desk) -> None:
    desk.tell(desk.death(desk.event()))
    desk.resolve("ack")
    assert desk.run(load("alerts_counts").replace("%(kinds)s", "'{event_dead}'")) == [("event_dead", 1)]
    desk.run("UPDATE agent_inbox_items SET status = 'resolved'")
    assert desk.run(load("alerts_counts").replace("%(kinds)s", "'{event_dead}'")) == []


def test_what_dies_again_after_it_was_dropped_or_requeued_is_dead(desk: Desk) -> None:
    event = desk.event()
    desk.tell(desk.death(event))
    desk.drop("event", event)
    desk.tell(desk.death(event, replay=RUN))
    desk.make_round()
    assert desk.inbox() == [(EVENT_DEAD, "open", 2)]
    desk.drop("event", event, replay=RUN)
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_a_death_that_an_older_alert_told_of_does_not_keep_a_newer_one_open(desk: Desk) -> None:
    desk.tell(desk.death(desk.event()))
    desk.resolve()
    event = desk.event()
    desk.tell(desk.death(event))
    desk.tell(desk.outcome(event, replay=RUN, outcome="job"))
    desk.make_round()
    assert desk.statuses() == ["resolved", "resolved"]


def test_a_job_is_dead_until_it_is_requeued_or_dropped(desk: Desk) -> None:
    one, two = desk.job(), desk.job()
    desk.tell(desk.step(one, "pending"), desk.job_death(one), desk.step(two, "pending"), desk.job_death(two))
    desk.make_round()
    assert desk.inbox() == [(JOB_DEAD, "open", 2)]
    desk.tell(desk.step(one, "pending", replay=RUN))
    desk.drop("job", two.id)
    desk.make_round()
    assert desk.statuses() == ["resolved"]
    desk.tell(desk.job_death(one, replay=RUN))
    desk.make_round()
    assert desk.statuses() == ["resolved", "open"]


def test_a_group_link_that_died_is_told_from_one_that_was_cancelled(desk: Desk) -> None:
    died, cancelled = desk.job("group_link_template"), desk.job("group_link_template")
    for job in (died, cancelled):
        desk.run(
            "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone,"
            " group_link, template_name, template_language)"
            " VALUES (%s, %s, %s, 'personal', '+551', 'l', 't', 'pt_BR')",
            job.id, desk.organization, job.id,
        )  # fmt: skip
    desk.tell(desk.job_death(died), desk.step(cancelled, "failed", "cancelled:by hand"))
    assert desk.run("SELECT DISTINCT status FROM group_link_dispatch_queue") == [("failed",)]
    desk.make_round()
    assert desk.inbox() == [(LINK_DEAD, "open", 1)]
    desk.tell(desk.step(died, "failed", "cancelled:by hand", replay=RUN))
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_an_event_without_a_row_heals_by_what_the_trace_tells(desk: Desk) -> None:
    stranger = str(uuid.uuid4())
    desk.tell(desk.death(stranger))
    desk.make_round()
    assert desk.statuses() == ["open"]
    desk.tell(desk.outcome(stranger, replay=RUN, outcome="job"))
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_an_unreadable_record_waits_for_a_person(desk: Desk) -> None:
    nil, place = str(uuid.UUID(int=0)), str(uuid.uuid4())
    alert = alert_texts.event_unreadable("not_json", "t [0] offset 1", None)
    desk.tell(desk.outcome(place, status="dead", organization_id=nil, alert=alert, stage="collect"))
    desk.make_round()
    desk.make_round()
    assert desk.inbox() == [(title("event_unreadable"), "open", 1)]
    desk.drop("event", place)
    desk.make_round()
    assert desk.statuses() == ["resolved"]


# -- jobs that wait


def test_b181_out_of_credit_is_over_when_the_first_answer_goes_out(desk: Desk) -> None:
    one, two = desk.job(), desk.job()
    alert = alert_texts.out_of_credit(one)
    desk.tell(desk.step(one, "pending", "retry:out_of_credit", alert), desk.step(two, "running"))
    desk.tell(desk.step(two, "pending", "retry:out_of_credit", alert), desk.step(one, "running"))
    desk.make_round()
    assert desk.inbox() == [(title("out_of_credit"), "open", 2)]
    desk.tell(desk.step(two, "done", "merged:x"))
    desk.make_round()
    assert desk.statuses() == ["open"], "one that was merged answered nobody, and the other waits"
    desk.tell(desk.step(one, "done", "done"))
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_a_done_job_of_another_organization_or_kind_cures_nothing(desk: Desk) -> None:
    job, link = desk.job(), desk.job("group_link_template")
    other = str(uuid.uuid4())
    desk.run("INSERT INTO organizations (id) VALUES (%s)", other)
    desk.tell(desk.step(job, "pending", "retry:out_of_credit", alert_texts.out_of_credit(job)))
    desk.tell(desk.step(link, "done", "done"), desk.step(desk.job(organization_id=other), "done", "done"))
    desk.make_round()
    assert desk.statuses() == ["open"]


def test_a_session_is_well_when_it_works_again_or_nothing_waits_for_it(desk: Desk) -> None:
    session = str(uuid.uuid4())
    desk.run(
        "INSERT INTO channel_sessions (id, organization_id, status) VALUES (%s, %s, 'FAILED')",
        session, desk.organization,
    )  # fmt: skip
    job = desk.job()
    waits = desk.step(job, "pending", "retry:session", alert_texts.session_not_working(job, session))
    desk.tell(waits)
    desk.make_round()
    assert desk.statuses() == ["open"]
    desk.run("UPDATE channel_sessions SET status = 'WORKING'")
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_a_link_whose_fate_is_unknown_is_settled_when_it_is_held_no_more(desk: Desk) -> None:
    job = desk.job("group_link_template")
    alert = alert_texts.job_unknown_outcome(job)
    desk.tell(desk.step(job, "running"), desk.step(job, "held", "held:unknown_outcome", alert))
    desk.make_round()
    assert desk.inbox() == [(title("job_unknown_outcome"), "open", 1)]
    desk.tell(desk.step(job, "pending", "released"))
    desk.make_round()
    assert desk.statuses() == ["resolved"]


# -- beside others


def test_an_alert_of_an_older_system_stays_open_as_long_as_its_event_is_dead(desk: Desk) -> None:
    event = desk.event()
    desk.run("UPDATE event_log SET status = 'dead', updated_at = now() WHERE id = %s", event)
    desk.run(
        "INSERT INTO agent_inbox_items (organization_id, kind, severity, title, created_at)"
        " VALUES (%s, 'event_dead', 'critical', %s, now() + interval '20 milliseconds')",
        desk.organization, EVENT_DEAD,
    )  # fmt: skip
    desk.make_round()
    assert desk.inbox() == [(EVENT_DEAD, "open", 1)]
    desk.tell(desk.outcome(event, replay=RUN, outcome="job"))
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_an_event_that_an_older_system_gave_up_in_silence_is_told(desk: Desk) -> None:
    event, link = desk.event(), desk.event("group_link.dispatch_requested")
    desk.run("UPDATE event_log SET status = 'dead', last_error = 'boom', updated_at = now()")
    desk.make_round()
    assert sorted(desk.inbox()) == sorted(
        [(EVENT_DEAD, "open", 1), (title("group_link_event_dead"), "open", 1)]
    )
    desk.drop("event", event)
    desk.drop("event", link)
    desk.make_round()
    desk.make_round()
    assert desk.statuses() == ["resolved", "resolved"]


def test_alerts_that_are_not_ours_are_left_alone(desk: Desk) -> None:
    for kind, text in (("health", EVENT_DEAD), ("event_dead", "Outra coisa"), ("job_dead", "Um job morreu")):
        desk.run(
            "INSERT INTO agent_inbox_items (organization_id, kind, title) VALUES (%s, %s, %s)",
            desk.organization, kind, text,
        )  # fmt: skip
    desk.make_round()
    assert desk.statuses() == ["open"] * 3


def test_an_alert_in_another_language_resolves_too(desk: Desk) -> None:
    event = desk.event()
    alert = alert_texts.event_dead(AI, "contact_missing", 5, event, None, "en")
    desk.tell(desk.outcome(event, status="dead", alert=alert))
    desk.make_round()
    assert desk.inbox() == [(title("event_dead", "en"), "open", 1)]
    desk.drop("event", event)
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_deaths_of_an_unknown_organization_are_the_platforms_and_are_told_once(desk: Desk) -> None:
    desk.tell(desk.death(str(uuid.uuid4()), organization_id=str(uuid.uuid4())))
    for _ in range(2):
        desk.make_round()
    assert desk.run("SELECT organization_id, occurrences, status FROM agent_inbox_items") == [
        (None, 1, "open")
    ]


def test_an_index_of_the_crms_own_that_refuses_a_second_item_disturbs_nothing(desk: Desk) -> None:
    desk.run("CREATE UNIQUE INDEX theirs ON agent_inbox_items (organization_id, kind) WHERE status = 'open'")
    desk.run(
        "INSERT INTO agent_inbox_items (organization_id, kind, title) VALUES (%s, 'event_dead', 'another')",
        desk.organization,
    )
    desk.tell(desk.death(desk.event()))
    desk.make_round()
    assert desk.inbox() == [("another", "open", 1)]


def test_a_step_that_fails_leaves_the_others_alone(desk: Desk) -> None:
    event = desk.event()
    with no_alerts(desk):
        desk.tell(desk.death(desk.event()))
    desk.tell(desk.death(event))
    desk.tell(desk.outcome(event, replay=RUN, outcome="job"))
    desk.run("ALTER TABLE rajada.dropped RENAME TO away")
    with capture_logs() as logs:
        desk.make_round()
    assert [one["event"] for one in logs].count("alert_pass_step_failed") == 2, (
        "healing and strangers need it"
    )
    assert desk.statuses() == ["open"]
    desk.run("ALTER TABLE rajada.away RENAME TO dropped")
