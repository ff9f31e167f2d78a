"""Delayed records that can't be forwarded: dead letters with their bytes, and nobody waits for them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from schemas.codec import decode_outcome, encode_job
from schemas.dead import Header
from schemas.delayed import FORWARDED
from schemas.records import EventRef, Job
from schemas.topic_names import CLOCK, JOBS, OUTCOMES
from tests.integration.delay_lab import DelayLab
from tests.unit.builders import uid

HOUR_TOPIC = "dispatch.delay.1h"


@pytest.fixture
def lab(kafka: str, prefix: str, tmp_path: Path) -> Iterator[DelayLab]:
    made = DelayLab(kafka, prefix, tmp_path)
    yield made
    made.close()


def configure(lab: DelayLab, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, lab.topic(topic), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": lab.kafka})
    admin.incremental_alter_configs([change])[change].result(10)
    time.sleep(0.5)  # the broker applies a change a moment after it agreed


def a_job() -> Job:
    return Job(
        id=uid("job"),
        organization_id=uid("clinic"),
        contact_id=uid("ana"),
        kind="inbound_turn",
        source_event_id=uid("event"),
        seq=4,
        copy=1,
        attempt=1,
        created_at_ms=1,
        run_after_ms=2,
        payload="{}",
        events=(EventRef(event_id=uid("event")),),
    )


def test_records_without_a_due_time_die_with_their_bytes_and_stop_nobody(lab: DelayLab) -> None:
    """They lie in the topic of an hour, in front of one that is due: dead at once, not in an hour."""
    strange: list[tuple[bytes | None, bytes | None, list[Header]]] = [
        (b"k", b"no header", []),
        (b"k", b"\xff\x00", [("due-at", b"tomorrow"), ("x", None)]),
        (None, None, [("due-at", None)]),
        (b"k", encode_job(a_job()), [("due-at", b"1e12")]),
    ]
    lab.start()
    for key, value, headers in strange:
        lab.send(HOUR_TOPIC, key, value, headers, partition=2)
    lab.delay(1_000, partition=2)
    letters = lab.dead(4)
    assert [(key, value) for key, value, _ in letters] == [(key, value) for key, value, _ in strange]
    for (_, _, told), (_, _, headers) in zip(letters, strange, strict=True):
        assert told["reason"] == b"due_at_unreadable" and told["stage"] == b"delays"
        assert told["kafka_dlt-original-topic"] == lab.topic(HOUR_TOPIC).encode()
        assert headers == [(name, told[name]) for name, _ in headers]
    outcomes = [decode_outcome(value) for value in lab.outcomes(4)]
    assert all(outcome.alert is not None for outcome in outcomes)
    assert [outcome.job_status for outcome in outcomes] == [None, None, None, "dead"]
    assert outcomes[3].job is not None and outcomes[3].job.seq == 5
    lab.until_arrived(10)
    lab.check()


def test_a_record_that_the_jobs_do_not_take_dies_alone(lab: DelayLab) -> None:
    """The limit of a topic was lowered: the record goes, those around it are forwarded."""
    configure(lab, JOBS, "max.message.bytes", "20000")
    lab.start()
    lab.delay(*[300] * 20, partition=1)
    large = os.urandom(50_000)
    lab.send("dispatch.delay.100ms", b"k", large, [("due-at", b"1")], partition=1)
    lab.delay(*[300] * 20, partition=1)
    lab.until_arrived(20)
    lab.check()
    ((key, value, headers),) = lab.dead(1)
    assert (key, value, headers["reason"]) == (b"k", large, b"too_large_to_delay")


def test_a_record_that_fits_into_the_next_topic_only_compressed_is_forwarded(lab: DelayLab) -> None:
    configure(lab, JOBS, "max.message.bytes", "20000")
    lab.start()
    name = "x" * 200_000
    lab.due[name] = 1
    lab.send("dispatch.delay.100ms", b"k", name.encode(), [("due-at", b"1")])
    lab.flush()
    lab.until_arrived(20)
    lab.check()


def test_records_as_large_as_a_topic_takes_are_forwarded(lab: DelayLab) -> None:
    lab.start()
    for n in range(6):
        name = f"{n}" + os.urandom(1_900_000).hex()
        lab.due[name] = 1
        lab.send("dispatch.delay.100ms", b"k%d" % n, name.encode(), [("due-at", b"1")])
    lab.flush()
    lab.delay(500)
    lab.until_arrived(30)
    lab.check()


def test_a_clock_topic_that_does_not_tell_kafkas_time_ends_the_process_with_a_word(lab: DelayLab) -> None:
    configure(lab, CLOCK, "message.timestamp.type", "CreateTime")
    forwarder = lab.start(wait=False)
    assert forwarder.process.wait(30) not in (0, 1)
    assert "LogAppendTime" in forwarder.log()


def test_a_record_goes_to_the_topic_of_ours_that_it_names_and_nowhere_else(lab: DelayLab) -> None:
    """What a newer version wrote comes back to its topic and partition; other people's topics aren't ours."""
    lab.start()
    due_ms = time.time_ns() // 1_000_000 + 300
    places = {topic: partition % 4 for partition, topic in enumerate(FORWARDED)}
    for topic, partition in places.items():
        headers: list[Header] = [("due-at", b"%d" % due_ms), ("forward-to", topic.encode()), ("x", b"1")]
        lab.send("dispatch.delay.100ms", b"k", topic.encode(), headers, partition=partition)
    elsewhere: list[Header] = [("due-at", b"%d" % due_ms), ("forward-to", b"payments")]
    lab.send("dispatch.delay.100ms", b"k", b"elsewhere", elsewhere, partition=0)
    lab.flush()
    (letter,) = lab.dead(1)
    assert letter[1] == b"elsewhere" and letter[2]["reason"] == b"forward_to_unreadable"
    assert letter[2]["kafka_dlt-original-topic"] == lab.topic("dispatch.delay.100ms").encode()
    for topic in places:
        found = lab.all_of(topic, 2 if topic == OUTCOMES else 1, 5.0)
        assert [(key, told["x"]) for key, value, told in found if value == topic.encode()] == [(b"k", b"1")]
