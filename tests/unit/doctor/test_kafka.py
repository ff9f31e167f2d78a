"""What the doctor says of topics and readers, and how it reads a broker's release."""

from __future__ import annotations

import struct

import pytest

from db.graves import Grave, overfull
from ops.doctor.kafka import dead_letters, drifts
from ops.doctor.kafka_version import kafka_version, metadata_level, release
from ops.doctor.pipeline import Group, forwarder, reader
from settings import Settings
from streams.sweep import Position
from streams.topics import Drift


def test_topics_that_were_never_made_are_a_warning_and_a_missing_one_a_failure() -> None:
    missing = [Drift(f"t{n}", "topic", "present", "missing") for n in range(3)]
    assert [one.level for one in drifts(missing, 3)] == ["warn"]
    (verdict,) = drifts(missing[:1], 3)
    assert verdict.level == "fail" and "t0" in verdict.found
    assert [one.level for one in drifts([], 3)] == ["ok"]


@pytest.mark.parametrize(
    ("what", "level"),
    [
        ("partitions", "fail"),
        ("cleanup.policy", "fail"),
        ("retention.ms", "warn"),
        ("max.message.bytes", "warn"),
    ],
)
def test_a_difference_that_loses_order_or_state_is_a_failure(what: str, level: str) -> None:
    (verdict,) = drifts([Drift("t", what, "1", "2")], 3)
    assert verdict.level == level and verdict.advice and f"{what} is 2, wanted 1" in verdict.found


def test_the_same_difference_of_many_topics_is_told_once() -> None:
    alike = [Drift(f"t{n}", "min.insync.replicas", "2", "1") for n in range(9)]
    other = Drift("t0", "replicas", "3", "1")
    told = drifts([*alike, other], 9)
    assert [one.level for one in told] == ["warn", "warn"]
    assert told[0].found == "t0, t1, t2, t3 and 5 more: min.insync.replicas is 1, wanted 2"
    assert "--topic EACH" in told[0].advice
    assert "RAJADA_REPLICATION_FACTOR" in told[1].advice


def test_many_dead_letters_are_an_alarm_each_topic_for_itself() -> None:
    settings = Settings(topic_prefix="x.", dead_alarm_records=100, dead_alarm_mb=5)

    def held(dead: int, parking: int, letter_bytes: int = 100) -> dict[str, Grave]:
        return {
            "dispatch.dead": Grave("a", {0: (7, 7 + dead), 1: (0, 0)}, letter_bytes),
            "dispatch.parking": Grave("b", {0: (0, parking)}, 100),
        }

    assert [one.level for one in dead_letters(held(100, 0), settings)] == ["ok"]
    (verdict,) = dead_letters(held(101, 3), settings)
    assert verdict.level == "warn" and "x.dispatch.dead holds 101 letters, alarm" in verdict.found
    assert overfull(held(101, 999), settings).keys() == {"dispatch.dead", "dispatch.parking"}
    (large,) = dead_letters(held(6, 0, 1 << 20), settings)
    assert large.level == "warn" and "6 letters (about 6 MiB)" in large.found
    assert "RAJADA_DEAD_ALARM_MB" in large.advice


IDLE = [Position(next=5, start=0, end=5, young=None), Position(next=None, start=0, end=0, young=None)]
BUSY = [Position(next=2, start=0, end=9, young=2)]
LATE = [Position(next=2, start=0, end=9, young=6)]


@pytest.mark.parametrize(
    ("group", "lag", "level", "word"),
    [
        (Group("stable", 2), IDLE, "ok", "2 members, stable, 0 records to go"),
        (Group("stable", 1), BUSY, "ok", "1 member, stable, 7 records to go"),
        (Group("stable", 1), LATE, "fail", "4 of them older than 60 s"),
        (Group("preparing_rebalancing", 2), IDLE, "warn", "rebalanc"),
        (Group("empty", 0), IDLE, "warn", "no worker runs, 0 records to go"),
        (Group("dead", 0), LATE, "fail", "no worker runs"),
    ],
)
def test_a_reader_that_is_late_is_a_failure(group: Group, lag: list[Position], level: str, word: str) -> None:
    verdict = reader("worker", group, lag)
    assert verdict.level == level
    assert word in verdict.found
    assert bool(verdict.advice) == (level != "ok")


@pytest.mark.parametrize(
    ("group", "lag", "level", "word"),
    [
        (Group("stable", 2), BUSY, "ok", "2 members, stable, 7 records wait"),
        (Group("stable", 1), LATE, "fail", "4 of them for more than 10 s too long"),
        (Group("empty", 0), BUSY, "warn", "no forwarder runs, 7 records wait"),
        (Group("empty", 0), LATE, "fail", "no forwarder runs"),
    ],
)
def test_delayed_records_that_stay_too_long_are_a_failure(
    group: Group, lag: list[Position], level: str, word: str
) -> None:
    verdict = forwarder(group, lag)
    assert verdict.level == level
    assert word in verdict.found
    assert bool(verdict.advice) == (level != "ok")


def answer(features: bytes | None) -> bytes:
    """An ApiVersions answer of version 3 with two keys."""
    keys = b"\x03" + struct.pack(">hhh", 0, 0, 13) + b"\0" + struct.pack(">hhh", 18, 0, 4) + b"\0"
    tags = b"\0"
    if features is not None:
        epoch = struct.pack(">q", 7)
        tags = b"\x02" + b"\x01" + bytes([len(epoch)]) + epoch + b"\x02" + bytes([len(features)]) + features
    return struct.pack(">ih", 1, 0) + keys + struct.pack(">i", 0) + tags


def feature(name: bytes, level: int) -> bytes:
    return bytes([len(name) + 1]) + name + struct.pack(">hh", level, level) + b"\0"


def test_the_release_is_read_from_the_settled_features() -> None:
    features = b"\x03" + feature(b"group.version", 1) + feature(b"metadata.version", 27)
    assert metadata_level(answer(features)) == 27
    assert metadata_level(answer(None)) is None
    assert metadata_level(answer(b"\x02" + feature(b"group.version", 1))) is None


@pytest.mark.parametrize(
    ("level", "name"),
    [(1, "3.0"), (7, "3.3"), (8, "3.4"), (21, "3.9"), (25, "4.0"), (27, "4.1"), (99, "4.2"), (0, "level 0")],
)
def test_a_level_stands_for_a_release(level: int, name: str) -> None:
    assert release(level) == name


def test_a_cut_or_refusing_answer_is_no_release() -> None:
    whole = answer(b"\x02" + feature(b"metadata.version", 27))
    for end in range(len(whole)):
        with pytest.raises((IndexError, ValueError)):
            metadata_level(whole[:end])
    with pytest.raises(ValueError, match="refuses"):
        metadata_level(struct.pack(">ih", 1, 35))


def test_nobody_there_is_no_release() -> None:
    assert kafka_version("127.0.0.1", 9, timeout_s=0.5) is None
