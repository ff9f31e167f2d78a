"""The sink against a real Kafka and a real Postgres: what it writes, and that nothing stops it."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from confluent_kafka import Producer, TopicPartition

import status
from schemas.codec import encode_job, encode_outcome
from schemas.records import Alert, EventOutcome
from settings import Settings
from sinks.outcomes import run_sink
from tests.integration.sink_lab import PARTITIONS, Lab, until


@pytest.fixture
def lab(kafka: str, database: str, prefix: str) -> Iterator[Lab]:
    made = Lab(database, kafka, Settings(topic_prefix=prefix, session_timeout_s=2.0))
    yield made
    made.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the sinks of this test report."""
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path))
    return tmp_path


def is_waiting(folder: Path, word: str) -> bool:
    report = status.read(folder, "sink")
    return report is not None and report.state == "waiting" and word in report.reason


def is_ready(folder: Path) -> bool:
    report = status.read(folder, "sink")
    return report is not None and report.state == "ready"


# -- what is written


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
                facts='{"provider_message_id": "w1"}',
            )
        )
        lab.until_caught_up()
    assert lab.execute("SELECT status, attempts, provider_message_id FROM group_link_dispatch_queue") == [
        ("sent", 1, "w1")
    ]
    assert lab.value("SELECT count(*) FROM job_queue") == 0


# -- alerts


def dead(lab: Lab, **changed: object) -> object:
    alert = Alert(kind="event_dead", title="t", body="b")
    return lab.outcome(str(uuid.uuid4()), status="dead", alert=alert, **changed)


def inbox(lab: Lab) -> list[tuple[object, ...]]:
    return lab.execute(
        "SELECT title, status, occurrences FROM agent_inbox_items ORDER BY title, status, occurrences"
    )


def test_a_thousand_deaths_are_one_open_alert_with_a_count(lab: Lab) -> None:
    lab.spread(dead(lab) for _ in range(1000))
    with lab.sink():
        lab.until_caught_up()
    assert inbox(lab) == [("t", "open", 1000)]
    assert lab.value("SELECT last_seen_at >= created_at FROM agent_inbox_items")


def test_the_newest_open_alert_counts_and_acknowledged_resolved_or_other_titles_do_not(lab: Lab) -> None:
    for title, state, age in (("t", "ack", 1), ("t", "resolved", 1), ("u", "open", 1), ("t", "open", 9)):
        lab.execute(
            "INSERT INTO agent_inbox_items (organization_id, kind, title, status, created_at)"
            " VALUES (%s, 'event_dead', %s, %s, now() - %s * interval '1 hour')",
            lab.organization, title, state, age,
        )  # fmt: skip
    lab.execute(
        "INSERT INTO agent_inbox_items (organization_id, kind, title, status, occurrences)"
        " VALUES (%s, 'event_dead', 't', 'open', 5)", lab.organization,
    )  # fmt: skip
    with lab.sink():
        lab.send(dead(lab), dead(lab))
        lab.until_caught_up()
    assert inbox(lab) == [
        ("t", "ack", 1), ("t", "open", 1), ("t", "open", 7), ("t", "resolved", 1), ("u", "open", 1),
    ]  # fmt: skip


def test_an_index_of_the_crms_own_counts_as_already_open(lab: Lab) -> None:
    lab.execute(
        "CREATE UNIQUE INDEX theirs ON agent_inbox_items (organization_id, kind) WHERE status = 'open'"
    )
    lab.execute(
        "INSERT INTO agent_inbox_items (organization_id, kind, title) VALUES (%s, 'event_dead', 'u')",
        lab.organization,
    )
    with lab.sink():
        lab.send(dead(lab))
        lab.until_caught_up()
    assert inbox(lab) == [("u", "open", 1)]


def test_failing_to_alert_does_not_stop_the_sink(lab: Lab) -> None:
    lab.execute("ALTER TABLE agent_inbox_items ADD CONSTRAINT no CHECK (title <> 't')")
    event = lab.event()
    with lab.sink():
        alert = Alert(kind="event_dead", title="t", body="b")
        lab.send(lab.outcome(event, status="dead", outcome=None, alert=alert))
        lab.until_caught_up()
    assert lab.row(event)["status"] == "dead"
    assert inbox(lab) == []
    assert lab.dead_letters() == []


def test_an_alert_of_an_unknown_organization_is_shown_to_the_platform(lab: Lab) -> None:
    with lab.sink():
        lab.send(dead(lab, organization_id=str(uuid.uuid4())), dead(lab, organization_id=""))
        lab.until_caught_up()
    assert lab.execute("SELECT organization_id, occurrences FROM agent_inbox_items") == [(None, 2)]


# -- what can't be applied


def test_foreign_bytes_die_with_their_bytes_and_hold_nothing_up(lab: Lab) -> None:
    """BR-37: undecodable bytes leave as they came."""
    event = lab.event()
    strange = [b"\xff\x00", b'{"json": true}', b"\xc3\x01" + b"12345678" + b"x", None]
    strange.append(encode_job(lab.job(event)))
    strange.append(encode_outcome(lab.outcome(event))[:-1])
    places = [
        lab.send_bytes(value, partition=1, key=b"k", headers=[("traceparent", b"00-a")]) for value in strange
    ]
    lab.send(lab.outcome(event), partition=1)
    with lab.sink():
        lab.until_caught_up()
    assert lab.row(event)["status"] == "done"
    letters = {}
    for letter in lab.dead_letters():
        headers = dict(letter.headers() or [])
        letters[int(headers["kafka_dlt-original-offset"])] = (letter, headers)
    reasons = ["not_avro", "not_avro", "unknown_schema", "not_avro", "bad_avro", "bad_avro"]
    for (partition, offset), value, reason in zip(places, strange, reasons, strict=True):
        letter, headers = letters.pop(offset)
        assert letter.value() == value
        assert letter.key() == b"k"
        assert headers["stage"] == b"sink"
        assert headers["reason"] == reason.encode()
        assert headers["kafka_dlt-original-topic"] == lab.outcomes.encode()
        assert headers["kafka_dlt-original-partition"] == str(partition).encode()
        assert headers["traceparent"] == b"00-a"
    assert letters == {}


def test_what_postgres_refuses_dies_alone(lab: Lab) -> None:
    good = [lab.event() for _ in range(40)]
    outcomes = [lab.outcome(event) for event in good]
    poison = {
        3: lab.outcome("not-a-uuid"),
        17: lab.outcome(lab.event(), status="no such status"),
        18: lab.outcome(lab.event(), last_error="a\x00b"),
        30: lab.outcome(lab.event(), facts="{no json"),
        44: lab.outcome(lab.event(), at_ms=10**17),
    }
    for place, outcome in poison.items():
        outcomes.insert(place, outcome)
    lab.send(*outcomes)
    with lab.sink():
        lab.until_caught_up()
    assert {lab.row(event)["status"] for event in good} == {"done"}
    letters = lab.dead_letters()
    assert sorted(int(dict(letter.headers())["kafka_dlt-original-offset"]) for letter in letters) == [*poison]
    assert {dict(letter.headers())["reason"] for letter in letters} == {b"refused_by_postgres"}
    assert lab.value("SELECT count(*) FROM rajada.trace") == len(good)


def test_a_dead_letter_that_cannot_be_written_holds_the_offset_until_it_can(lab: Lab, said: Path) -> None:
    lab.delete(lab.dead)
    event = lab.event()
    lab.send_bytes(b"strange")
    lab.send(lab.outcome(event))
    with lab.sink():
        until(lambda: is_waiting(said, "dead letters"), "the sink waits for the dead-letter topic", 60)
        assert lab.row(event)["status"] == "pending"
        assert lab.offsets()[0] == 0
        lab.create(lab.dead, PARTITIONS)
        lab.until_caught_up(90)
        until(lambda: is_ready(said), "the sink is ready")
    assert lab.row(event)["status"] == "done"
    assert {letter.value() for letter in lab.dead_letters()} == {b"strange"}


# -- where it stands


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


# -- what is away


def test_postgres_away_is_waited_out_and_nothing_is_lost(lab: Lab, postgres: str, said: Path) -> None:
    name = psycopg.conninfo.conninfo_to_dict(lab.url)["dbname"]
    events = [str(uuid.uuid4()) for _ in range(600)]
    lab.add_events(events)
    with lab.sink(), psycopg.connect(postgres, autocommit=True) as admin:
        until(lambda: is_ready(said), "the sink is ready")
        lab.spread(lab.outcome(event) for event in events[:200])
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        lab.spread(lab.outcome(event) for event in events[200:400])
        until(lambda: is_waiting(said, "Postgres"), "the sink says that it waits for Postgres")
        time.sleep(3)  # longer than the session timeout: it must stay in its group
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        lab.spread(lab.outcome(event) for event in events[400:])
        lab.until_caught_up()
        until(lambda: is_ready(said), "the sink says that it is ready again")
    assert lab.value("SELECT count(*) FROM event_log WHERE status = 'done'") == len(events)
    assert lab.value("SELECT count(*) FROM rajada.trace") == len(events)


def test_postgres_away_is_noticed_with_nothing_to_write(lab: Lab, postgres: str, said: Path) -> None:
    name = psycopg.conninfo.conninfo_to_dict(lab.url)["dbname"]
    with lab.sink(), psycopg.connect(postgres, autocommit=True) as admin:
        until(lambda: is_ready(said), "the sink is ready")
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        until(lambda: is_waiting(said, "Postgres"), "the sink says that it waits for Postgres")
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        until(lambda: is_ready(said), "the sink says that it is ready again")


def test_a_database_without_our_columns_is_waited_for_not_buried(lab: Lab, said: Path) -> None:
    event = lab.event()
    lab.execute("ALTER TABLE event_log RENAME COLUMN outcome_seq TO away")
    with lab.sink():
        lab.send_bytes(b"strange")
        lab.send(lab.outcome(event))
        until(lambda: is_waiting(said, "rajada migrate"), "the sink says what to do")
        time.sleep(1)  # some tries
        lab.execute("ALTER TABLE event_log RENAME COLUMN away TO outcome_seq")
        lab.until_caught_up()
        until(lambda: is_ready(said), "the sink is ready")
    assert lab.row(event)["status"] == "done"
    assert [letter.value() for letter in lab.dead_letters()] == [b"strange"]


def test_kafka_away_is_said_and_does_not_hold_the_stop(database: str, said: Path) -> None:
    stop = threading.Event()
    nobody = "127.0.0.1:9"
    thread = threading.Thread(target=run_sink, args=(database, nobody, Settings(), stop))
    thread.start()
    until(lambda: is_waiting(said, "Kafka is away"), "the sink says that it waits for Kafka")
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_missing_topic_is_waited_for(lab: Lab, said: Path) -> None:
    lab.delete(lab.outcomes)
    event = lab.event()
    with lab.sink():
        until(lambda: is_waiting(said, "does not exist"), "the sink says which topic is missing")
        lab.create(lab.outcomes, PARTITIONS)
        lab.send(lab.outcome(event))
        lab.until_caught_up(60)
    assert lab.row(event)["status"] == "done"


def test_it_stops_soon_and_leaves_its_group(lab: Lab, said: Path) -> None:
    with lab.sink() as stop:
        until(lambda: is_ready(said), "the sink is ready")
        stopped = time.monotonic()
        stop.set()
    assert time.monotonic() - stopped < 5
    group = lab.settings.topic("rajada-sink")
    described = lab.admin.describe_consumer_groups([group])[group].result(10)
    assert described.members == []
