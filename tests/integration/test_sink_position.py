"""Where the sink stands: Postgres says it, whatever the group, the topic or the database do."""

from __future__ import annotations

from confluent_kafka import Producer, TopicPartition

from schemas.codec import encode_outcome
from schemas.records import EventOutcome
from tests.integration.sink_lab import PARTITIONS, Lab, until


def test_it_starts_where_postgres_says_not_where_the_group_says(lab: Lab) -> None:
    events = [lab.event() for _ in range(4)]
    with lab.sink():
        lab.send(*(lab.outcome(event) for event in events[:3]))
        lab.until_caught_up()
    # as after a restore of the database to an earlier time
    lab.execute("UPDATE event_log SET status = 'pending', outcome_replay = NULL, outcome_seq = NULL")
    lab.execute("UPDATE rajada.sink_offsets SET next_offset = 1")
    with lab.sink():
        lab.until_caught_up()
    assert [lab.row(event)["status"] for event in events] == ["pending", "done", "done", "pending"]


def test_a_running_sink_follows_a_database_that_was_set_back(lab: Lab) -> None:
    events = [lab.event() for _ in range(3)]
    with lab.sink():
        lab.send(*(lab.outcome(event) for event in events[:2]))
        lab.until_caught_up()
        lab.execute("UPDATE event_log SET status = 'pending', outcome_replay = NULL, outcome_seq = NULL")
        lab.execute("DELETE FROM rajada.sink_offsets")
        lab.send(lab.outcome(events[2]))
        until(lambda: lab.offsets().get(0) == 3, "the sink has read all of it again")
    assert {lab.row(event)["status"] for event in events} == {"done"}


def test_the_group_is_told_for_tools_that_show_lag(lab: Lab) -> None:
    from confluent_kafka import Consumer

    with lab.sink():
        lab.send(lab.outcome(lab.event()), partition=2)
        lab.until_caught_up()
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": lab.settings.topic("rajada-sink")})
    (committed,) = consumer.committed([TopicPartition(lab.outcomes, 2)], timeout=10)
    consumer.close()
    assert committed.offset == 1


def test_a_topic_made_again_is_read_from_its_start(lab: Lab) -> None:
    before = [lab.event() for _ in range(3)]
    with lab.sink():
        lab.send(*(lab.outcome(event) for event in before))
        lab.until_caught_up()
        first_id = lab.topic_id()
        lab.delete(lab.outcomes)
        lab.create(lab.outcomes, PARTITIONS)
        # more than the old topic held: reading on from the old position would look fine, and skip three
        after = [lab.event() for _ in range(8)]
        lab.send(*(lab.outcome(event) for event in after))
        lab.until_caught_up(90)
    assert lab.topic_id() != first_id
    assert {lab.row(event)["status"] for event in before + after} == {"done"}
    assert lab.value("SELECT count(*) FROM rajada.trace") == len(before) + len(after)


def test_a_topic_made_again_while_no_sink_ran_is_read_from_its_start(lab: Lab) -> None:
    with lab.sink():
        lab.send(*(lab.outcome(lab.event()) for _ in range(3)))
        lab.until_caught_up()
    lab.delete(lab.outcomes)
    lab.create(lab.outcomes, PARTITIONS)
    after = [lab.event() for _ in range(5)]
    lab.send(*(lab.outcome(event) for event in after))
    with lab.sink():
        lab.until_caught_up()
    assert {lab.row(event)["status"] for event in after} == {"done"}


def test_outcomes_that_expired_unread_do_not_stop_it(lab: Lab) -> None:
    events = [lab.event() for _ in range(5)]
    with lab.sink():
        lab.send(lab.outcome(events[0]))
        lab.until_caught_up()
    lab.send(*(lab.outcome(event) for event in events[1:]))
    gone = [TopicPartition(lab.outcomes, 0, 3)]
    for future in lab.admin.delete_records(gone).values():
        future.result(30)
    with lab.sink():
        lab.until_caught_up()
    assert [lab.row(event)["status"] for event in events] == ["done", "pending", "pending", "done", "done"]


def test_the_end_of_a_partition_is_reached_over_aborted_records_and_markers(lab: Lab) -> None:
    """Who waits for an offset to be passed would wait for ever at a transaction's marker."""
    event = lab.event()
    with lab.sink():
        lab.send(lab.outcome(event))
        lab.until_caught_up()
        transactional = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": lab.outcomes})
        transactional.init_transactions(30)
        transactional.begin_transaction()
        never = lab.outcome(EventOutcome(event_id=event, seq=9), outcome="never")
        transactional.produce(lab.outcomes, value=encode_outcome(never), partition=0)
        transactional.flush()
        transactional.abort_transaction(30)
        until(lambda: lab.ends(lab.outcomes)[0] == 3, "an aborted record and its marker lie at the end")
        lab.until_caught_up()
    assert lab.row(event)["outcome"] == "superseded_by_newer_inbound"
