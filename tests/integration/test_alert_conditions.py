"""Conditions of the machine room on real servers: told once, as long as they last (spec, "Alerts")."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from db.leases import Lease, new_holder
from schemas import alert_texts
from schemas.alert_texts import title
from schemas.records import Outcome
from schemas.topic_names import DEAD, PARKING
from settings import Settings
from sinks import passes
from sinks.outage import database_was_away
from sinks.passes import Passes
from sinks.watches import DeadLetters, Drains, Gaps, Lanes, Slots
from tests.integration.alert_desk import Desk, desk_database
from tests.integration.sink_lab import Lab, until


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    with desk_database(postgres) as made:
        yield made


@pytest.fixture
def desk(url: str) -> Iterator[Desk]:
    made = Desk(url)
    yield made
    made.close()


def skewed(desk: Desk, by: str, over: bool = False) -> Outcome:
    """What a worker tells of its clock."""
    alert = None if over else alert_texts.clock_skew(2_000)
    return desk.outcome(
        organization_id="", stage="health", outcome="clock_skew", facts=f'{{"by": "{by}"}}', alert=alert
    )


def test_a_condition_is_told_once_lasts_while_it_is_repeated_and_ends_by_word(desk: Desk) -> None:
    for _ in range(3):
        desk.tell(skewed(desk, "one"))
        desk.make_round()
    assert desk.inbox() == [(title("clock_skew"), "open", 1)]
    assert desk.run("SELECT organization_id FROM agent_inbox_items") == [(None,)]
    desk.tell(skewed(desk, "two"))
    assert desk.inbox() == [(title("clock_skew"), "open", 2)]
    desk.tell(skewed(desk, "one", over=True))
    desk.make_round()
    assert desk.statuses() == ["open"], "the other one's clock is wrong still"
    desk.tell(skewed(desk, "two", over=True))
    desk.make_round()
    assert desk.statuses() == ["resolved"]
    assert desk.run("SELECT count(*) FROM rajada.trace") == [(0,)]


def test_a_condition_that_nobody_speaks_of_any_more_is_over(desk: Desk) -> None:
    desk.tell(skewed(desk, "one"))
    desk.run("UPDATE rajada.troubles SET ends_at = now() - interval '1 second'")
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_an_outage_that_is_over_is_told_and_resolved_by_the_next_round(desk: Desk) -> None:
    desk.writer.tell([database_was_away(45, "pt-BR")])
    assert desk.inbox() == [(title("database_away"), "open", 1)]
    assert "45 s" in desk.run("SELECT body FROM agent_inbox_items")[0][0]
    desk.make_round()
    assert desk.statuses() == ["resolved"]


def test_a_slot_that_is_gone_is_told_until_there_is_one(desk: Desk) -> None:
    slot = f"s{uuid.uuid4().hex[:10]}"
    watch = Slots(Settings(slot=slot))
    desk.make_round(watch)
    assert desk.inbox() == [], "it was never made"
    desk.run("INSERT INTO rajada.relay (slot, slots_made) VALUES (%s, 1)", slot)
    desk.make_round(watch)
    desk.make_round(watch)
    assert desk.inbox() == [(title("slot_lost"), "open", 1)]
    desk.run("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", slot)
    try:
        desk.make_round(watch)
        assert desk.statuses() == ["resolved"]
    finally:
        desk.run("SELECT pg_drop_replication_slot(%s)", slot)


def test_a_gap_between_two_slots_is_told_once(desk: Desk) -> None:
    watch = Gaps("pt-BR")
    desk.run("INSERT INTO rajada.relay (slot, slots_made) VALUES ('s', 1)")
    desk.make_round(watch)
    assert desk.inbox() == [], "the first slot leaves no gap"
    desk.run("UPDATE rajada.relay SET slots_made = 2, backfill_since = '2026-01-02 03:04:05Z'")
    desk.make_round(watch)
    assert desk.inbox() == [(title("publisher_gap"), "open", 1)]
    assert "slot s, desde 2026-01-02 03:04:05 UTC" in desk.run("SELECT body FROM agent_inbox_items")[0][0]
    desk.make_round(watch)
    assert desk.inbox() == [(title("publisher_gap"), "resolved", 1)]


def test_b127_an_organization_of_which_nothing_advances_is_told_and_it_closes_by_itself(desk: Desk) -> None:
    watch = Drains("pt-BR", due_s=60, still_s=0.2)
    old, due_later, _young = desk.event(), desk.event(), desk.event()
    desk.run("UPDATE rajada.meta SET installed_at = now() - interval '1 day'")
    desk.run(
        "UPDATE event_log SET created_at = now() - interval '10 minutes' WHERE id IN (%s, %s)", old, due_later
    )
    desk.run("UPDATE event_log SET next_attempt_at = now() WHERE id = %s", due_later)
    desk.make_round(watch)
    assert desk.inbox() == [], "it may advance still"
    time.sleep(0.3)
    desk.make_round(watch)
    assert desk.inbox() == [(title("drain_stopped"), "open", 1)]
    ((organization, ref, body),) = desk.run(
        "SELECT organization_id::text, ref_id::text, body FROM agent_inbox_items"
    )
    assert (organization, ref) == (desk.organization, old)
    assert "1 à espera, há 10 min" in body
    desk.tell(desk.outcome(old))
    desk.make_round(watch)
    assert desk.statuses() == ["resolved"]


def test_b127_jobs_that_nobody_runs_are_told_though_events_are_decided_and_not_while_paused(
    desk: Desk,
) -> None:
    """A forwarder that is down, or lanes that hang: the event log is well and customers wait all the same."""
    watch = Lanes("pt-BR", due_s=60, still_s=0.2)
    desk.run("TRUNCATE rajada.orders")
    desk.run("UPDATE rajada.meta SET installed_at = now() - interval '1 day'")
    job, link = (str(uuid.uuid4()) for _ in range(2))
    desk.run(
        "INSERT INTO job_queue (id, organization_id, kind, status, run_after) VALUES"
        " (%s, %s, 'inbound_turn', 'pending', now() - interval '9 minutes'),"
        " (gen_random_uuid(), %s, 'inbound_turn', 'pending', 'infinity'),"
        " (gen_random_uuid(), %s, 'inbound_turn', 'pending', now()),"
        " (gen_random_uuid(), %s, 'follow_up', 'pending', now() - interval '1 hour')",
        job, *[desk.organization] * 4,
    )  # fmt: skip
    desk.make_round(watch)
    assert desk.inbox() == [], "it may be taken still"
    time.sleep(0.3)
    desk.make_round(watch)
    assert desk.inbox() == [(title("drain_stopped"), "open", 1)]
    ((organization, ref, body),) = desk.run(
        "SELECT organization_id::text, ref_id::text, body FROM agent_inbox_items"
    )
    assert (organization, ref) == (desk.organization, job)
    assert "1 à espera, há 9 min" in body
    desk.run(
        "INSERT INTO rajada.orders (id, action, organization_id) VALUES (gen_random_uuid(), 'pause', %s)",
        desk.organization,
    )
    desk.make_round(watch)
    assert desk.statuses() == ["resolved"], "somebody wants it to stand still"
    desk.run(
        "INSERT INTO rajada.orders (id, action, organization_id, at) VALUES"
        " (gen_random_uuid(), 'resume', %s, now() + interval '1 second')", desk.organization,
    )  # fmt: skip
    desk.run("UPDATE job_queue SET status = 'done' WHERE id = %s", job)
    desk.run(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language, available_at) VALUES"
        " (%s, %s, 'e', 'personal', '+5511912345678', 'g', 't', 'pt', now() - interval '7 minutes')",
        link, desk.organization,
    )  # fmt: skip
    desk.make_round(watch)
    time.sleep(0.3)
    desk.make_round(watch)
    assert sorted(desk.statuses()) == ["open", "resolved"]


def test_dead_letters_that_nobody_deals_with_are_told(desk: Desk, kafka: str, prefix: str) -> None:
    settings = Settings(topic_prefix=prefix, dead_letters_alarm=3)
    watch = DeadLetters(kafka, settings)
    desk.make_round(watch)
    assert desk.inbox() == [], "there are no topics yet"
    admin, topic = AdminClient({"bootstrap.servers": kafka}), settings.topic(DEAD)
    names = [topic, settings.topic(PARKING)]
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(4):
        producer.produce(topic, value=b"x", partition=n % 2)
    assert producer.flush(30) == 0
    desk.make_round(watch)
    assert desk.inbox() == [(title("dead_letters_large"), "open", 1)]
    assert "4 registros" in desk.run("SELECT body FROM agent_inbox_items")[0][0]
    topic_id = str(admin.describe_topics(TopicCollection([topic]))[topic].result(10).topic_id)
    for offset in (0, 1):
        desk.run(
            "INSERT INTO rajada.closed_letters (topic_id, topic, partition, \"offset\", how)"
            " VALUES (%s, %s, 0, %s, 'dropped')", topic_id, topic, offset,
        )  # fmt: skip
    desk.make_round(watch)
    assert desk.statuses() == ["resolved"]
    large = DeadLetters(kafka, settings.model_copy(update={"dead_letters_alarm": 9, "dead_alarm_mb": 1}))
    desk.make_round(large)
    assert desk.statuses() == ["resolved"], "two open ones of a byte each"
    producer.produce(topic, value=bytes(900_000), partition=1)
    producer.produce(topic, value=bytes(900_000), partition=1)
    assert producer.flush(30) == 0
    desk.make_round(large)
    assert sorted(desk.statuses()) == ["open", "resolved"], "few letters, but large ones"
    for future in admin.delete_topics(names).values():
        future.result(30)


def test_a_watch_that_fails_leaves_what_it_said_and_the_others_alone(desk: Desk) -> None:
    desk.run("INSERT INTO rajada.relay (slot, slots_made) VALUES ('gone_slot', 1)")
    desk.make_round(Slots(Settings(slot="gone_slot")))
    desk.run("UPDATE rajada.relay SET slots_made = 2")
    nowhere = DeadLetters("127.0.0.1:1", Settings())
    desk.make_round(nowhere, Slots(Settings(slot="gone_slot")), Gaps("pt-BR"))
    assert sorted(desk.statuses()) == ["open", "open"]


def test_one_pass_at_a_time_makes_rounds(desk: Desk, url: str, kafka: str, prefix: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rounds: list[str] = []
        patch.setattr(passes.Round, "make", lambda self, _: rounds.append(id(self)))
        settings = Settings(topic_prefix=prefix, alerts_every_s=0.05)
        stop = threading.Event()
        threads = [threading.Thread(target=Passes(url, kafka, settings).run, args=(stop,)) for _ in range(2)]
        lease = Lease(desk.rows, passes.LEASE, new_holder(), 60)
        assert lease.take() is not None
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        assert rounds == [], "another process has the lease"
        lease.release()
        until(lambda: len(rounds) > 4, "rounds are made", 10)
        stop.set()
        for thread in threads:
            thread.join(10)


def test_a_dead_outcome_is_told_until_a_person_has_seen_it(lab: Lab, database: str) -> None:
    lab.send_bytes(b"strange", partition=2)
    lab.send(lab.outcome(lab.event(), status="no such status"))
    with lab.sink():
        lab.until_caught_up()
    desk = Desk(database, clear=False)
    desk.make_round()
    assert desk.inbox() == [(title("outcome_dead"), "open", 2)]
    desk.resolve()
    desk.make_round()
    assert desk.statuses() == ["resolved"] and desk.troubles() == []
    desk.close()
