"""Faults that others met in what lies under their streams, by id; provoked on a real Kafka."""

from __future__ import annotations

import re
import signal
from time import monotonic, sleep

import pytest
from confluent_kafka import Consumer, TopicPartition

from chaos.workers import Worker
from streams.transport import EXIT_CODE

from .transport_lab import PARTITIONS, Lab, exit_code, laboratory, until


def produce(lab: Lab, n: int, first: int = 0) -> None:
    producer = lab.producer()
    for i in range(first, first + n):
        producer.produce(lab.topic, b"%d" % i, f"k{i % 120}", i % PARTITIONS)
        if i % 1000 == 0:
            producer.poll(0)
    producer.flush()


def recovered_keys(worker: Worker) -> int:
    return int(re.findall(r"table recovered\s+keys=(\d+)", worker.log.read_text())[-1])


def stop(worker: Worker) -> None:
    worker.process.terminate()
    assert exit_code(worker) == 0


def test_br_06_another_replica_makes_nobody_repeat_what_is_done(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_COMMIT="600") as lab:
        first = lab.start()
        produce(lab, 3 * PARTITIONS)
        until(lambda: len(lab.processed()) == 3 * PARTITIONS)
        assert sum(lab.log.committed().values()) == 0, "committed by itself: the test proves nothing"
        lab.start()
        until(lambda: first.log.read_text().count("table recovered") == 2)
        assert sum(lab.log.committed().values()) == 3 * PARTITIONS
        produce(lab, 3 * PARTITIONS)
        until(lambda: len(lab.processed()) == 6 * PARTITIONS)
        assert max(lab.processed().values()) == 1


def test_br_16_a_changelog_all_of_whose_records_expired_is_an_empty_state(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path) as lab:
        worker = lab.start()
        produce(lab, 120)
        lab.wait_committed()
        stop(worker)
        lab.delete_records(lab.changelog, dict.fromkeys(range(PARTITIONS), -1))
        began = monotonic()
        second = lab.start()
        assert monotonic() - began < 30
        assert recovered_keys(second) == 0
        produce(lab, 120)
        lab.wait_committed()
        assert second.process.poll() is None


def test_br_17_recovery_ends_behind_transaction_markers_and_holes(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path) as lab:
        worker = lab.start()
        produce(lab, 120)
        lab.wait_committed()
        stop(worker)
        transactions = lab.producer(**{"transactional.id": lab.name})
        transactions.init_transactions()
        for commit in (True, False, True, False):
            transactions.begin_transaction()
            for p in range(PARTITIONS):
                transactions.produce(
                    lab.changelog, b'{"last":0,"n":1,"sum":0,"worker":9}', f"tool {commit}", p
                )
            transactions.flush()
            (transactions.commit_transaction if commit else transactions.abort_transaction)()
        began = monotonic()
        second = lab.start()
        assert monotonic() - began < 30
        assert recovered_keys(second) == 120 + PARTITIONS, "the tool's records, and no aborted one"


def test_br_17_a_recovery_that_stands_still_ends_the_worker(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_STUCK="1") as lab:
        lab.write_changelog(30)
        worker = lab.workers.start()
        assert exit_code(worker, 40) == EXIT_CODE
        told = worker.log.read_text()
        assert "alarm: recovery" in told
        assert "`faust reset` drops local state" in told


@pytest.mark.slow
def test_br_18_replicas_that_start_cold_one_after_the_other_lose_no_input(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_DECODE_MS="0.02") as lab:
        lab.write_changelog(1_000_000)
        produce(lab, 6_000)
        workers = []
        for _ in range(4):
            workers.append(lab.workers.start())
            sleep(5)
        until(lambda: all(worker.ready for worker in workers), 120, "not all become ready")
        produce(lab, 6_000, first=6_000)
        lab.wait_committed(90)
        assert len(lab.processed()) == 12_000
        assert [worker.process.poll() for worker in workers] == [None] * 4


def test_br_47_a_stop_under_load_loses_no_message_and_ends_in_time(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_TABLES="0") as lab:
        worker = lab.start()
        sent = 0
        producer = lab.producer()
        began = monotonic()
        while monotonic() - began < 6:  # 5,000 a second
            for _ in range(250):
                producer.produce(lab.topic, b"%d" % sent, f"k{sent % 120}", sent % PARTITIONS)
                sent += 1
            producer.poll(0)
            if sent == 15_000:
                worker.process.terminate()
            sleep(max(0.0, began + sent / 5_000 - monotonic()))
        producer.flush()
        stopping = monotonic()
        assert exit_code(worker) == 0
        assert monotonic() - stopping < 5
        lab.start()
        lab.wait_committed()
        assert outputs(lab) == {b"%d" % i for i in range(sent)}


def outputs(lab: Lab) -> set[bytes]:
    """Everything that the workers have sent."""
    reader = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": f"{lab.name}-reader"})
    ends = {
        p: reader.get_watermark_offsets(TopicPartition(f"{lab.name}.out", p))[1] for p in range(PARTITIONS)
    }
    reader.assign([TopicPartition(f"{lab.name}.out", p, 0) for p in range(PARTITIONS)])
    found = set()
    while ends:
        message = reader.poll(10)
        assert message is not None
        found.add(message.value())
        if message.offset() + 1 >= ends.get(message.partition(), 0):
            ends.pop(message.partition(), None)
    reader.close()
    return found


@pytest.mark.long
def test_a_worker_that_is_killed_in_its_recovery_hands_it_on(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_DECODE_MS="0.3") as lab:
        lab.write_changelog(30_000)
        first = lab.workers.start()
        until(lambda: "recovering" in first.log.read_text(), 30)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        produce(lab, 600)
        second = lab.start()
        lab.wait_committed(60)
        assert recovered_keys(second) == 30_000
