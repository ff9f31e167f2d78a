"""The delay topics on a real Kafka: records come when they are due, once, and as they were."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.due import DELAY_TOPICS
from streams.lag import Lags
from tests.integration.delay_lab import PARTITIONS, DelayLab, until


@pytest.fixture
def lab(kafka: str, prefix: str, tmp_path: Path) -> Iterator[DelayLab]:
    made = DelayLab(kafka, prefix, tmp_path)
    yield made
    made.close()


@pytest.mark.long
def test_all_delays_up_to_some_seconds_are_met_and_never_early(lab: DelayLab) -> None:
    """Each hop of the ladder up to ten seconds, in all partitions; the record itself stays as it is."""
    lab.start()
    lab.delay(*range(0, 400, 3), *range(0, 4_000, 37), 10_000, 10_001, 10_099, 11_111)
    lab.until_arrived(20)
    lab.check()
    for name, (one,) in lab.arrivals.items():
        assert one.key == f"org:{name}".encode()
        assert one.headers[:2] == [("traceparent", b"00-a"), ("null", None)]
        assert [header for header, _ in one.headers[2:]] == ["due-at", "original-timestamp"]
    assert len({one.partition for (one,) in lab.arrivals.values()}) == PARTITIONS


@pytest.mark.alone
def test_br31_a_thousand_records_of_one_second_are_at_most_half_a_second_late(lab: DelayLab) -> None:
    forwarder = lab.start()
    lab.delay(*[1_000] * 1_000)
    lab.until_arrived(20)
    lab.check()
    late = lab.late_ms()
    assert late[989] <= 500, f"p99 {late[989]:.0f} ms, at most {late[-1]:.0f} ms"
    until(lambda: forwarder.counters().get("due") == 1_000, 15)
    assert forwarder.counters()["late_p99_ms"] <= 500


@pytest.mark.parametrize(
    "delay_s", [12, pytest.param(60, marks=pytest.mark.slow)], ids=lambda seconds: f"{seconds} s"
)
def test_br30_a_partition_that_moves_within_the_delay_is_served_when_it_is_due(
    lab: DelayLab, delay_s: int
) -> None:
    """A forwarder is added and taken away again while the records wait, and partitions are paused."""
    lab.start()
    lab.delay(*[delay_s * 1_000] * 6_000)
    due_s = time.monotonic() + delay_s
    time.sleep(delay_s / 6)
    second = lab.start("second")
    time.sleep(delay_s / 6)
    assert second.end() == 0
    third = lab.start("third")
    ready_late_ms = max(0.0, time.monotonic() - due_s) * 1000
    lab.look(max(0.0, due_s - time.monotonic() - 1))
    lab.until_arrived(30)
    lab.check()
    assert third.process.poll() is None
    assert lab.late_ms()[-1] < ready_late_ms + 5_000


@pytest.mark.long
def test_br33_a_head_that_waits_stops_no_other_partition_of_its_topic(lab: DelayLab) -> None:
    """Two partitions of one topic: one head has seconds to go, the other one is due now."""
    lab.delay(10_000, partition=1, name="due")
    time.sleep(9)
    lab.delay(10_000, partition=0, name="waits")
    time.sleep(1.1)
    lab.start()
    lab.until_arrived(5, "due0")
    assert "waits1" not in lab.arrivals
    lab.until_arrived(20)
    lab.check()


def test_records_wait_through_a_restart_and_keep_their_time(lab: DelayLab) -> None:
    first = lab.start()
    lab.delay(*[4_000] * 200)
    time.sleep(1)
    assert first.end() == 0
    assert first.state() == "waiting"
    lab.start()
    ready_late_ms = max(0.0, time.time() * 1000 - min(lab.due.values()))
    lab.until_arrived(20)
    lab.check()
    assert lab.late_ms()[-1] < ready_late_ms + 3_000


def test_what_came_due_while_nobody_was_there_goes_at_once(lab: DelayLab) -> None:
    lab.delay(*[5_900] * 50)
    time.sleep(6)
    forwarder = lab.start()
    lab.until_arrived(5)
    lab.check()
    assert forwarder.end() == 0
    assert forwarder.counters()["forwarded"] == 50, "one hop each: their delays have passed"


@pytest.mark.long
def test_two_forwarders_share_the_work(lab: DelayLab) -> None:
    pair = [lab.start(), lab.start()]
    until(lambda: all(int(one.counters().get("partitions", 0)) > 0 for one in pair), 20)
    lab.delay(*[1_000, 1_500, 2_000] * 200)
    lab.until_arrived(15)
    lab.check()
    assert [one.end() for one in pair] == [0, 0]
    counted = [one.counters() for one in pair]
    assert sum(int(one["due"]) for one in counted) == 600
    assert all(int(one["forwarded"]) > 0 for one in counted)
    assert sum(int(one["partitions"]) for one in counted) >= len(DELAY_TOPICS) * PARTITIONS


def test_more_forwarders_than_partitions_do_no_harm(kafka: str, prefix: str, tmp_path: Path) -> None:
    lab = DelayLab(kafka, prefix, tmp_path)
    try:
        several = [lab.start(wait=False) for _ in range(3)]
        for one in several:
            one.wait_ready()
        lab.delay(*[1_200] * 40)
        lab.until_arrived(15)
        lab.check()
    finally:
        lab.close()


def test_what_was_aborted_never_arrives_and_what_lies_behind_it_does(lab: DelayLab) -> None:
    lab.start()
    producer = Producer({"bootstrap.servers": lab.kafka, "transactional.id": f"{lab.prefix}test"})
    producer.init_transactions(20)
    topic = lab.topic("dispatch.delay.100ms")
    due_at = str(time.time_ns() // 1_000_000).encode()
    for outcome in ("aborted", "committed", "aborted"):
        producer.begin_transaction()
        for n in range(10):
            name = f"{outcome}{n}"
            if outcome == "committed":
                lab.due[name] = int(due_at)
            producer.produce(topic, name.encode(), b"k", 0, headers=[("due-at", due_at)])
        producer.flush()
        time.sleep(0.3)
        (producer.commit_transaction if outcome == "committed" else producer.abort_transaction)()
        lab.delay(150, partition=0, name="plain")
    lab.until_arrived(10)
    lab.check()


def test_records_that_are_committed_late_are_forwarded_in_their_order(lab: DelayLab) -> None:
    """A transaction that stays open holds its partition's later records back, and no other partition's."""
    lab.start()
    producer = Producer({"bootstrap.servers": lab.kafka, "transactional.id": f"{lab.prefix}test"})
    producer.init_transactions(20)
    producer.begin_transaction()
    lab.due["open"] = time.time_ns() // 1_000_000
    headers: list[tuple[str, str | bytes | None]] = [("due-at", str(lab.due["open"]).encode())]
    producer.produce(lab.topic("dispatch.delay.100ms"), b"open", b"k", 0, headers=headers)
    producer.flush()
    lab.delay(100, partition=0, name="behind")
    lab.delay(100, partition=1, name="beside")
    lab.until_arrived(5, "beside2")
    lab.look(1)
    assert lab.arrivals.keys() == {"beside2"}
    producer.commit_transaction()
    lab.until_arrived(5)
    lab.check()


def test_offsets_of_quiet_partitions_reach_their_ends(lab: DelayLab) -> None:
    """Ends of transactions take offsets, too: nobody shall be alarmed by a lag of markers."""
    lab.start()
    lab.delay(*[1_500] * 20)
    lab.until_arrived(10)
    lags = Lags(lab.kafka)

    def unread() -> int:
        group = lab.topic("rajada-delays")
        return sum(
            one.unread for topic in DELAY_TOPICS for one in lags.of_group(lab.topic(topic), group, 60.0)
        )

    until(lambda: unread() == 0, 20)


def test_records_that_retention_took_are_told_and_the_others_go_on(lab: DelayLab) -> None:
    first = lab.start()
    lab.delay(200, partition=0)
    lab.until_arrived(10)
    lab.check()
    assert first.end() == 0
    lab.delay(*[500] * 3, partition=0, name="lost")
    for name in [name for name in lab.due if name.startswith("lost")]:
        del lab.due[name]
    topic = lab.topic("dispatch.delay.100ms")
    admin = AdminClient({"bootstrap.servers": lab.kafka})
    for future in admin.delete_records([TopicPartition(topic, 0, -1)]).values():
        future.result(10)
    second = lab.start()
    lab.delay(300, partition=0, name="after")
    lab.until_arrived(10)
    lab.check()
    assert "delayed_records_expired" in second.log()


def test_either_signal_to_stop_ends_with_code_0(lab: DelayLab) -> None:
    assert lab.start().end(signal.SIGINT) == 0
    assert lab.start().end(signal.SIGTERM) == 0


def test_topics_that_are_missing_are_made(kafka: str, prefix: str, tmp_path: Path) -> None:
    lab = DelayLab(kafka, prefix, tmp_path)
    try:
        admin = AdminClient({"bootstrap.servers": kafka})
        gone = [lab.topic("dispatch.delay.1s"), lab.topic("dispatch.clock")]
        for future in admin.delete_topics(gone).values():
            future.result(10)
        until(lambda: not set(gone) & admin.list_topics(timeout=10).topics.keys(), 10)
        lab.start()
        lab.delay(1_100)
        lab.until_arrived(10)
        lab.check()
    finally:
        lab.close()
