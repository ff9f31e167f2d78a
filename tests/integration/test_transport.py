"""The transport against a real Kafka: what it reads, what it commits, and how a worker ends."""

from __future__ import annotations

import signal
from itertools import count

import orjson
import pytest

from streams.transport.token import MARKER

from .transport_lab import PARTITIONS, Lab, exit_code, laboratory, until


class Transactions:
    """Committed and aborted transactions on both source topics."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.kept, self.aborted = set(), set()
        self.producer = lab.producer(**{"transactional.id": lab.name})
        self.producer.init_transactions()

    def write(self, n: int, commit: bool) -> None:
        self.begin(n, commit)
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)()

    def begin(self, n: int, commit: bool) -> None:
        places = self.kept if commit else self.aborted
        self.producer.begin_transaction()
        for i in range(n):
            for topic in self.lab.sources:
                self.producer.produce(
                    topic, b"x", f"k{i}", i % PARTITIONS,
                    on_delivery=lambda _, m: places.add((m.topic(), m.partition(), m.offset())),
                )  # fmt: skip
        self.producer.flush()

    def assert_all_processed(self) -> None:
        self.lab.wait_committed()
        processed = self.lab.processed()
        assert not self.aborted & processed.keys(), "an aborted record was delivered"
        assert processed.keys() == self.kept


def test_aborted_transactions_are_not_delivered_and_not_in_the_way(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path) as lab:
        transactions = Transactions(lab)
        for n, commit in ((60, True), (30, False), (60, True), (300, False)):
            transactions.write(n, commit)
        worker = lab.start()
        transactions.assert_all_processed()  # the log ends in aborted records and their markers

        transactions.write(300, commit=False)  # nothing but aborted records since
        transactions.write(60, commit=True)
        transactions.assert_all_processed()

        transactions.begin(60, commit=False)  # an open transaction holds back what comes after it
        plain = lab.producer()
        later = set()
        for i in range(60):
            plain.produce(
                lab.topic, b"y", f"k{i}", i % PARTITIONS,
                on_delivery=lambda _, m: later.add((m.topic(), m.partition(), m.offset())),
            )  # fmt: skip
        plain.flush()
        until(lambda: sum(lab.log.committed().values()) >= sum(lab.log.ends().values()) - 60 * 2 - 60)
        assert not later & lab.processed().keys(), "delivered beyond an open transaction"
        transactions.producer.abort_transaction()
        transactions.kept |= later
        transactions.assert_all_processed()

        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
        transactions.write(120, commit=False)  # the next worker begins with aborted records
        transactions.write(6, commit=True)
        lab.start()
        transactions.assert_all_processed()
        assert "were deleted" not in lab.logs()


def test_br_12_records_without_key_or_value_and_any_bytes_pass(kafka, prefix, tmp_path):
    odd = [
        (None, None), (None, b"v"), (b"k", None), (b"", b""), (b"\xff\xfe\x00", b"\x80" * 10),
        (b"\x00" * 200, b"{not json"), ("ключ".encode(), b"\xc3\x01" + b"\x00" * 8), (b"k", b"x" * 500_000),
    ]  # fmt: skip
    headers = [("", b""), ("twice", b"1"), ("twice", b"2"), ("null", None), ("bytes", b"\xff\x00")]
    with laboratory(kafka, prefix, tmp_path) as lab:
        worker = lab.start()
        producer = lab.producer()
        for (key, value), n in zip(odd * 3, count(), strict=False):
            for topic in lab.sources:
                producer.produce(topic, value, key, n % PARTITIONS, headers=headers)
        producer.flush()
        lab.wait_committed()
        assert len(lab.processed()) == 2 * 3 * len(odd)
        assert worker.process.poll() is None
        written = [m for m in lab.log.read(lab.changelog, PARTITIONS) if m.key() != MARKER]
        counted = {m.key(): orjson.loads(m.value())["n"] for m in written}
        assert counted[b""] >= 1
        assert b"\xff\xfe\x00" in counted


def test_a_fetch_position_that_jumps_is_put_back(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_JUMP="1") as lab:
        lab.start()
        producer = lab.producer()
        sent = count()

        def goes_on_until_three_jumps() -> bool:
            for _ in range(60):
                i = next(sent)
                producer.produce(lab.topic, b"x", f"k{i % 300}", i % PARTITIONS)
                producer.produce(lab.single, b"x", f"k{i % 300}", i % PARTITIONS)
            producer.poll(0)
            return lab.logs().count("fetched elsewhere than expected") >= 3

        until(goes_on_until_three_jumps, what="nothing jumped: the test would prove nothing")
        producer.flush()
        lab.wait_committed()
        assert len(lab.processed()) == 2 * next(sent)
        assert max(lab.processed().values()) == 1, "a jump back delivered records twice"


def test_records_deleted_before_they_were_read_are_passed_with_an_alarm(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path) as lab:
        producer = lab.producer()
        worker = lab.start()
        for i in range(600):
            producer.produce(lab.topic, b"x", f"k{i}", i % PARTITIONS)
        producer.flush()
        lab.wait_committed()
        worker.process.terminate()
        assert exit_code(worker) == 0
        for i in range(1200):
            producer.produce(lab.topic, b"x", f"k{i}", i % PARTITIONS)
        producer.flush()
        lab.delete_records(lab.topic, {p: -1 if p < 2 else 250 for p in range(PARTITIONS)})
        lab.start()
        lab.wait_committed()
        readable = {(lab.topic, p, o) for p in range(2, PARTITIONS) for o in range(250, 300)}
        before = {(lab.topic, p, o) for p in range(PARTITIONS) for o in range(100)}
        assert lab.processed().keys() == readable | before
        assert lab.logs().count("deleted before they were read") == PARTITIONS


@pytest.mark.long
def test_a_changelog_whose_beginning_was_deleted_is_recovered_from_what_is_left(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path) as lab:
        worker = lab.start()
        producer = lab.producer()
        for _ in range(3):
            for i in range(60):
                producer.produce(lab.topic, b"x", f"k{i}", i % PARTITIONS)
            producer.flush()
            lab.wait_committed()
        worker.process.terminate()
        assert exit_code(worker) == 0
        lab.delete_records(lab.changelog, {p: 15 if p else -1 for p in range(PARTITIONS)})
        second = lab.start()
        until(
            lambda: "keys=50" in second.log.read_text(), what="not the 50 keys that the changelog still has"
        )
        for i in range(60):
            producer.produce(lab.topic, b"x", f"k{i}", i % PARTITIONS)
        producer.flush()
        lab.wait_committed()
        assert second.process.poll() is None


def test_a_terminated_worker_commits_and_ends_well(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_DELAY_MS="20") as lab:
        worker = lab.start()
        producer = lab.producer()
        for i in range(20_000):
            producer.produce(lab.topic, b"x", f"k{i % 500}", i % PARTITIONS)
        producer.flush()
        until(lambda: lab.processed(), what="nothing was processed")
        worker.process.terminate()
        assert exit_code(worker) == 0
        done = len([place for place in lab.processed() if place[0] == lab.topic])
        committed = sum(n for (topic, _), n in lab.log.committed().items() if topic == lab.topic)
        assert committed == done, "what was processed wasn't committed"
        lab.start()
        lab.wait_committed()
        assert max(lab.processed().values()) == 1, "a graceful stop made the next worker repeat records"
