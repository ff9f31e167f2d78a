"""What a shadow may do and makes, on real servers: it reads, it begins at the end, its topics are its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg import sql
from psycopg.conninfo import make_conninfo

from db import roles
from db.pool import async_pool
from db.queries import load
from schemas.topic_names import APP_ID, SOURCE
from settings import Settings
from streams.shadow import begin_at_the_end
from streams.topics import SHADOW_TOPICS, TopicsUnusable, ensure_topics, partition_count

READS = (
    "decide_facts", "decide_followup", "decide_eligibility", "window_lengths",
    "shadow_events", "shadow_jobs", "shadow_unseen",
)  # fmt: skip
"""All that a shadow and its report ask Postgres."""


@pytest.fixture
def reader(database: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of the role that `rajada roles shadow` makes."""
    prefix = f"r{uuid4().hex[:10]}_"
    with psycopg.connect(database, autocommit=True) as owner:
        roles.apply(owner, ["shadow"], prefix)
        with psycopg.connect(make_conninfo(database, user=f"{prefix}shadow"), autocommit=True) as connection:
            yield connection
        name = sql.Identifier(f"{prefix}shadow")
        owner.execute(sql.SQL("DROP OWNED BY {}").format(name))
        owner.execute(sql.SQL("DROP ROLE {}").format(name))


def test_its_role_may_ask_all_that_it_asks(reader: psycopg.Connection[tuple[object, ...]]) -> None:
    for name in READS:
        text = load(name)
        values = dict.fromkeys(re.findall(r"%\((\w+)\)s", text))
        reader.execute(f"EXPLAIN {text}".encode(), values)


def test_its_role_may_write_nowhere(reader: psycopg.Connection[tuple[object, ...]]) -> None:
    tables = reader.execute(
        "SELECT c.oid::regclass::text,"
        " has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')"
        " OR has_any_column_privilege(c.oid, 'INSERT, UPDATE')"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p') AND n.nspname IN ('public', 'rajada', 'connect')"
    ).fetchall()
    assert len(tables) > 20 and not [name for name, may in tables if may]


async def test_its_connections_change_nothing_whoever_logs_in(database: str) -> None:
    async with async_pool(database, name="shadow", read_only=True) as pool, pool.connection() as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await connection.execute("UPDATE event_log SET status = 'done'")


@pytest.fixture
def settings(prefix: str) -> Settings:
    return Settings(_env_file=None, topic_prefix=prefix, shadow=True)  # type: ignore[call-arg]


def make_source(kafka: str, prefix: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": kafka})
    name = f"{prefix}{SOURCE}"
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    return name


def test_it_needs_the_installations_events_and_makes_its_own_topics_beside_them(
    kafka: str, prefix: str, settings: Settings
) -> None:
    with pytest.raises(TopicsUnusable, match="rajada topics ensure"):
        ensure_topics(kafka, settings)
    make_source(kafka, prefix, 3)
    made = ensure_topics(kafka, settings)
    assert set(made) == {f"{prefix}shadow.{topic.name}" for topic in SHADOW_TOPICS}
    assert partition_count(kafka, settings) == 3
    described = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    assert {len(described[name].partitions) for name in made} == {3}, "a contact's are where its events are"
    assert ensure_topics(kafka, settings) == []


def test_it_begins_with_what_comes_and_goes_on_where_it_was(
    kafka: str, prefix: str, settings: Settings
) -> None:
    topic = make_source(kafka, prefix, 2)

    def written(number: int) -> None:
        producer = Producer({"bootstrap.servers": kafka})
        for _ in range(number):
            producer.produce(topic, b"x", partition=0)
        assert producer.flush(30) == 0

    def place() -> list[int]:
        asking = Consumer({"bootstrap.servers": kafka, "group.id": settings.topic(APP_ID), "log_level": 2})
        try:
            found = asking.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 30)
            return [one.offset for one in found]
        finally:
            asking.close()

    written(5)
    assert begin_at_the_end(kafka, settings) == 2
    assert place() == [5, 0]
    written(4)
    assert begin_at_the_end(kafka, settings) == 0, "it was here before"
    assert place() == [5, 0]
