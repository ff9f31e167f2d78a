"""A worker that was replaced without knowing: what it still writes never counts, and it sends nothing."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from time import sleep

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from chaos.workers import Worker
from streams.transport import EXIT_CODE
from streams.transport.token import HEADER, MARKER, Reader, Token

from .transport_lab import PARTITIONS, Lab, exit_code, laboratory, until

pytestmark = pytest.mark.long

KEYS = 60


def load(lab: Lab) -> None:
    """A record of each key."""
    producer = lab.producer()
    for i in range(KEYS):
        producer.produce(lab.topic, b"x", f"k{i}", i % PARTITIONS)
    producer.flush()


def records(lab: Lab, topic: str) -> Iterable[tuple[int, object]]:
    """The records of a topic, with the worker that wrote each."""
    for message in lab.log.read(topic, PARTITIONS):
        headers = dict(message.headers() or ())
        yield int(headers.get("worker", b"-1")), message


def state(lab: Lab) -> dict[bytes, dict[str, int]]:
    """What a reader of the changelog has."""
    found, readers = {}, {}
    for message in lab.log.read(lab.changelog, PARTITIONS):
        counts = readers.setdefault(message.partition(), Reader()).accepts(message.headers())
        if counts and message.key() != MARKER:
            found[message.key()] = orjson.loads(message.value())
    return found


def tokens(lab: Lab) -> list[Token]:
    """The owners' tokens in partition 0, in order."""
    markers = [m for m in lab.log.read(lab.changelog, PARTITIONS) if m.key() == MARKER and m.partition() == 0]
    return [Token.decode(dict(marker.headers())[HEADER]) for marker in markers]


def pause_mid_batch(lab: Lab, worker: Worker) -> None:
    """Stop a worker that has a batch at work (`CHAOS_DELAY_MS` makes it long)."""
    load(lab)
    sleep(1.0)
    worker.process.send_signal(signal.SIGSTOP)


def ends(lab: Lab) -> dict[int, int]:
    """Ends of the topic that workers send to."""
    reader = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": f"{lab.name}-ends"})
    try:
        return {
            p: reader.get_watermark_offsets(TopicPartition(f"{lab.name}.out", p))[1]
            for p in range(PARTITIONS)
        }
    finally:
        reader.close()


def third_owner(lab: Lab, second: Worker) -> None:
    """The second owner dies; a third one recovers and must hold the second's state."""
    before = state(lab)
    assert len(before) == KEYS
    second.process.send_signal(signal.SIGKILL)
    second.process.wait()
    third = lab.start()
    assert re.findall(r"table recovered\s+keys=(\d+)", third.log.read_text())[-1] == str(KEYS)
    load(lab)
    lab.wait_committed()
    after = state(lab)
    assert {key: value["n"] for key, value in after.items()} == {
        key: value["n"] + 1 for key, value in before.items()
    }


@pytest.mark.parametrize("static", [False, True], ids=["", "static"])
def test_the_state_is_the_second_owners_and_the_zombie_sends_nothing(kafka, prefix, tmp_path, static):
    with laboratory(kafka, prefix, tmp_path, CHAOS_DELAY_MS="1500") as lab:
        first = lab.start(static="one" if static else None)
        load(lab)
        lab.wait_committed()
        pause_mid_batch(lab, first)
        # a static successor takes the place at once, any other when the session has ended
        second = lab.start(static="one" if static else None, CHAOS_DELAY_MS="0")
        lab.wait_committed()
        told = [sum(worker == 1 for worker, _ in records(lab, f"{lab.name}.out"))]
        assert told[0] > 0, "the second owner doesn't work"
        expected, out = state(lab), ends(lab)
        first.process.send_signal(signal.SIGCONT)
        if static:
            assert exit_code(first, 15) == EXIT_CODE
        else:
            sleep(5)
        before = {worker for worker, m in records(lab, f"{lab.name}.out") if m.offset() >= out[m.partition()]}
        assert before <= {1}, "the zombie sent"
        if not static:
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
            lab.wait_committed()
        assert state(lab) == expected
        third_owner(lab, second)


def test_an_owner_of_a_group_that_was_deleted_counts_less_than_one_of_the_new_group(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_DELAY_MS="1500") as lab:
        first = lab.start()
        load(lab)
        lab.wait_committed()
        pause_mid_batch(lab, first)
        admin = AdminClient({"bootstrap.servers": kafka})
        until(lambda: _deleted(admin, lab.name), 30, "the group isn't empty")
        second = lab.start(CHAOS_DELAY_MS="0")
        lab.wait_committed()
        assert tokens(lab)[-1].epoch == 1, "a group that begins anew raises the epoch"
        expected, out = state(lab), ends(lab)
        first.process.send_signal(signal.SIGCONT)
        sleep(5)
        late = {worker for worker, m in records(lab, f"{lab.name}.out") if m.offset() >= out[m.partition()]}
        assert late <= {1}, "the zombie sent"
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        lab.wait_committed()
        assert state(lab) == expected
        third_owner(lab, second)
        assert tokens(lab) == sorted(tokens(lab))


def _deleted(admin: AdminClient, group: str) -> bool:
    return admin.delete_consumer_groups([group])[group].exception(10) is None


def test_a_static_member_that_restarts_in_time_takes_its_place_without_a_rebalance(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_SESSION="10") as lab:
        first = lab.start(static="one")
        other = lab.start(static="two")
        load(lab)
        lab.wait_committed()
        generations = other.log.read_text().count("Successfully synced group")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        lab.start(static="one")
        load(lab)
        lab.wait_committed()
        assert other.log.read_text().count("Successfully synced group") == generations
        assert {value["n"] for value in state(lab).values()} == {2}
