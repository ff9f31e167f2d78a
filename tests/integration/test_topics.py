"""Topics are made once, checked, and never silently differ."""

from __future__ import annotations

import time

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from settings import Settings
from streams.job_room import MOST_BYTES
from streams.topics import (
    CONTACTS_CHANGELOG,
    JOBS,
    JOBS_CHANGELOG,
    SOURCE,
    TOPICS,
    TopicsUnusable,
    check_topics,
    ensure_topics,
    partition_count,
)
from streams.transport.producer import MAX_RECORD_BYTES


def test_topics_are_made_once_and_have_the_table_s_shape(kafka: str, prefix: str) -> None:
    settings = Settings(topic_prefix=prefix, partitions=3)
    assert {drift.found for drift in check_topics(kafka, settings)} == {"missing"}
    assert sorted(ensure_topics(kafka, settings)) == sorted(f"{prefix}{topic.name}" for topic in TOPICS)
    assert ensure_topics(kafka, settings) == []
    assert check_topics(kafka, settings) == []
    assert partition_count(kafka, settings) == 3


def test_a_missing_topic_gets_the_partitions_of_its_siblings(kafka: str, prefix: str) -> None:
    ensure_topics(kafka, Settings(topic_prefix=prefix, partitions=3))
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([f"{prefix}{JOBS}"])[f"{prefix}{JOBS}"].result(10)
    while f"{prefix}{JOBS}" in admin.list_topics(timeout=10).topics:
        time.sleep(0.05)
    assert ensure_topics(kafka, Settings(topic_prefix=prefix, partitions=8)) == [f"{prefix}{JOBS}"]
    assert check_topics(kafka, Settings(topic_prefix=prefix)) == []


def test_drift_of_a_setting_is_told(kafka: str, prefix: str) -> None:
    settings = Settings(topic_prefix=prefix, partitions=2)
    ensure_topics(kafka, settings)
    admin = AdminClient({"bootstrap.servers": kafka})
    name = f"{prefix}{CONTACTS_CHANGELOG}"
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(10)
    deadline = time.monotonic() + 10  # the broker applies a change a moment after it agreed
    while not (told := [str(drift) for drift in check_topics(kafka, settings)]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert told == [f"{name}: cleanup.policy is delete, wanted compact"]


def test_fewer_replicas_than_asked_for_are_told_and_so_is_how_many_must_have_a_record(
    kafka: str, prefix: str
) -> None:
    """Topics of a trial installation, looked at with the settings of a production."""
    ensure_topics(kafka, Settings(topic_prefix=prefix, partitions=2))
    assert check_topics(kafka, Settings(topic_prefix=prefix)) == []
    found = check_topics(kafka, Settings(topic_prefix=prefix, replication_factor=3))
    assert len(found) == 2 * len(TOPICS)
    assert {(one.what, one.found, one.wanted) for one in found} == {
        ("replicas", "1", "3"),
        ("min.insync.replicas", "1", "2"),
    }


def test_topics_with_different_partition_counts_are_refused(kafka: str, prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    for name, count in ((SOURCE, 2), (JOBS, 4)):
        admin.create_topics([NewTopic(f"{prefix}{name}", count, 1)])[f"{prefix}{name}"].result(10)
    with pytest.raises(TopicsUnusable, match="same number of partitions"):
        ensure_topics(kafka, Settings(topic_prefix=prefix))


def test_kafka_away_is_told_with_what_to_look_at() -> None:
    with pytest.raises(TopicsUnusable, match="KAFKA_BOOTSTRAP_SERVERS"):
        ensure_topics("127.0.0.1:1", Settings())


async def test_a_contacts_record_of_jobs_may_grow_to_twice_what_is_kept(kafka: str, prefix: str) -> None:
    """A full record (`streams.job_room`), with what merges and retries put into it, is written and read."""
    settings = Settings(topic_prefix=prefix, partitions=1)
    ensure_topics(kafka, settings)
    topic, value = settings.topic(JOBS_CHANGELOG), b"x" * (2 * MOST_BYTES - 64 * 1024)
    refused: list[object] = []
    writer = Producer({"bootstrap.servers": kafka, "acks": "all", "message.max.bytes": MAX_RECORD_BYTES})
    writer.produce(topic, value, b"key", on_delivery=lambda error, _: refused.append(error))
    assert writer.flush(30) == 0 and refused == [None]
    reader = AIOKafkaConsumer(bootstrap_servers=kafka)
    await reader.start()
    try:
        reader.assign([TopicPartition(topic, 0)])
        await reader.seek_to_beginning()
        assert (await reader.getone()).value == value
    finally:
        await reader.stop()
