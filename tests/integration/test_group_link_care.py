"""The queue of group links is looked after: what is stuck is asked after, what is old removed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest
from confluent_kafka import Consumer

from db.group_links import GroupLinkRequest, enqueue_group_link_template
from ops.clinic import Connection
from schemas.alert_texts import title
from schemas.codec import decode_command
from schemas.records import Command
from schemas.topic_names import CONTROL
from settings import Settings
from sinks.group_link_care import GroupLinkCare, next_night
from streams.contact_jobs import ContactJobs
from streams.control import carry_out
from streams.heads import State
from streams.job_endings import Rules
from streams.topics import ensure_topics

ORGANIZATION = UUID(int=5)
RULES = Rules(kinds=frozenset({"group_link_template"}))


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as opened:
        opened.execute(
            "INSERT INTO organizations (id, name, status) VALUES (%s, 's', 'active')", [ORGANIZATION]
        )
        yield opened


def link(connection: Connection, number: int, status: str, days: float = 0) -> str:
    """A row that has been in a state for so many days."""
    request = GroupLinkRequest(
        organization_id=ORGANIZATION, enrolment_id=f"e{number}", flow="personal", student_name="Ana",
        phone="+5511988887777", group_link="https://x/y", template_name="t", template_language="en",
    )  # fmt: skip
    job = enqueue_group_link_template(connection, request).job_id
    connection.execute(
        "UPDATE group_link_dispatch_queue SET status = %s, updated_at = now() - make_interval(secs => %s),"
        " attempts = 1, outcome_replay = 0, outcome_seq = 3 WHERE id = %s",
        [status, days * 86_400, job],
    )
    return str(job)


def care(database: str, **more: object) -> GroupLinkCare:
    return GroupLinkCare(database, "127.0.0.1:1", Settings.model_validate(more))


def left(connection: Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT id FROM group_link_dispatch_queue").fetchall()}


def test_a_row_that_is_processing_for_ten_minutes_is_asked_after_and_held_where_nobody_knows_it(
    kafka: str, database: str, prefix: str, connection: Connection
) -> None:
    settings = Settings(topic_prefix=prefix, partitions=4)
    ensure_topics(kafka, settings)
    stuck = link(connection, 1, "processing", 11 / 1_440)
    link(connection, 2, "processing", 9 / 1_440)
    link(connection, 3, "pending", 1)
    carer = GroupLinkCare(database, kafka, settings)
    assert carer.recover(connection) == 1
    assert carer.recover(connection) == 1, "asked again as long as the row says so"
    first, again = read(kafka, settings, 2)
    assert first[0] == f"{ORGANIZATION}:+5511988887777".encode()
    assert first[1].id == again[1].id and first[1].job_id == stuck
    jobs = ContactJobs()
    assert carry_out(jobs, (str(ORGANIZATION), None), first[1], RULES, 1_000)
    head = jobs.heads[stuck]
    assert (head.state, head.attempt, head.seq, head.kind) == (State.HELD, 1, 4, "group_link_template")
    assert b"job_unknown_outcome" in b"".join(send.value or b"" for send in head.unsent)
    assert not carry_out(jobs, (str(ORGANIZATION), None), again[1], RULES, 2_000), "carried out once"
    running = ContactJobs(heads={stuck: jobs.heads[stuck]})
    running.heads[stuck].state = State.RUNNING
    assert not carry_out(running, (str(ORGANIZATION), None), first[1], RULES, 1_000)
    assert running.heads[stuck].state is State.RUNNING, "what runs here is left alone"


def read(kafka: str, settings: Settings, count: int) -> list[tuple[bytes, Command]]:
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([settings.topic(CONTROL)])
    found: list[tuple[bytes, Command]] = []
    try:
        while len(found) < count:
            message = consumer.poll(20)
            assert message is not None and message.error() is None
            found.append((message.key() or b"", decode_command(message.value() or b"")))
    finally:
        consumer.close()
    return found


def test_sent_rows_are_kept_30_days_and_failed_ones_90(database: str, connection: Connection) -> None:
    young = {
        link(connection, 1, "sent", 29),
        link(connection, 2, "failed", 89),
        link(connection, 3, "pending", 400),
        link(connection, 4, "processing", 400),
    }
    link(connection, 5, "sent", 31)
    link(connection, 6, "failed", 91)
    carer, stop = care(database), threading.Event()
    assert carer.retire(connection, stop) == 2
    assert left(connection) == young
    link(connection, 7, "sent", 31)
    assert carer.retire(connection, stop) == 0, "once a night"
    assert care(database).retire(connection, stop) == 0, "whoever does it"


def test_0_keeps_for_ever(database: str, connection: Connection) -> None:
    kept = {link(connection, 1, "sent", 4_000), link(connection, 2, "failed", 4_000)}
    none = care(database, group_links_sent_days=0, group_links_failed_days=0)
    assert none.retire(connection, threading.Event()) == 0
    assert left(connection) == kept


def test_a_row_with_an_open_alert_is_never_removed(database: str, connection: Connection) -> None:
    named, covered, over = (link(connection, number, "failed", 200) for number in range(3))
    item = "INSERT INTO agent_inbox_items (organization_id, kind, title, ref_kind, ref_id, status)"
    told = title("group_link_dead")
    values = "VALUES (%s, 'job_dead', %s, 'job', %s, %s)"
    connection.execute(f"{item} {values}", [ORGANIZATION, told, named, "open"])
    connection.execute(f"{item} {values}", [ORGANIZATION, "another", over, "resolved"])
    connection.execute(
        "INSERT INTO rajada.troubles (about, id, kind, title, organization_id, body, said_at)"
        " VALUES ('job', %s, 'job_dead', %s, %s, '', now())",
        [covered, told, ORGANIZATION],
    )
    care(database).retire(connection, threading.Event())
    assert left(connection) == {named, covered}
    connection.execute("UPDATE agent_inbox_items SET status = 'resolved'")
    connection.execute("UPDATE rajada.leases SET rests_until = now()")
    care(database).retire(connection, threading.Event())
    assert left(connection) == set()


def test_they_are_removed_in_small_batches(
    database: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.group_link_care.RETIRED_PAGE", 3)
    monkeypatch.setattr("sinks.group_link_care.PAUSE_S", 0.0)
    for number in range(10):
        link(connection, number, "sent", 40)
    assert care(database).retire(connection, threading.Event()) == 10


def test_the_next_night_begins_at_three() -> None:
    assert next_night(datetime(2026, 3, 1, 2, 59, tzinfo=UTC)) == datetime(2026, 3, 1, 3, tzinfo=UTC)
    assert next_night(datetime(2026, 3, 1, 3, 0, tzinfo=UTC)) == datetime(2026, 3, 2, 3, tzinfo=UTC)
