"""One worker at a time: its fence, its hooks, its ends, and how it dies."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import Producer, TopicPartition

from chaos.transport import create_topics, delete_topics
from streams.transport import EXIT_CODE, FenceRefused
from streams.transport.lease import confirm
from tests.command_line import FAUST, Running, start

from .transport_lab import until


@dataclass
class Probe:
    """A running probe."""

    bootstrap: str
    name: str
    folder: Path
    process: Running

    @property
    def result(self):
        path = self.folder / "result.json"
        try:
            return orjson.loads(path.read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def producer(self, **settings):
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 1, **settings})

    def produce(self, *items, **settings) -> None:
        producer = self.producer(**settings)
        for key, partition in items:
            producer.produce(f"{self.name}.in", b"x", key, partition)
        producer.flush()

    def wait_end(self, timeout: float = 25.0) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on:\n{self.log[-2000:]}") from None


@contextmanager
def probing(what: str, bootstrap: str, name: str, folder: Path, fresh: bool = True) -> Iterator[Probe]:
    topics = [f"{name}.in", f"{name}.out", f"{name}.large"]
    if fresh:
        create_topics(bootstrap, topics, 2, {"max.message.bytes": "5000000"})
    environment = {"PROBE": what, "PROBE_ID": name, "PROBE_BOOTSTRAP": bootstrap}
    environment["PROBE_RESULT"] = str(folder / "result.json")
    command = [*FAUST, "-A", "tests.integration.transport_probe", "worker", "-l", "info", "--without-web"]
    process = start(command, env={**os.environ, **environment}, log=folder / "log")
    try:
        yield Probe(bootstrap, name, folder, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        delete_topics(bootstrap, [*topics, f"{name}-t-changelog", f"{name}-second-changelog"])


def test_the_fence_passes_for_the_owner_and_ends_a_worker_of_a_stale_generation(kafka, prefix, tmp_path):
    with probing("stale", kafka, prefix + "stale", tmp_path) as probe:
        assert probe.wait_end() == EXIT_CODE
        assert probe.result == "the fence passed for the owner"
        assert "unexpected failure, ending the process" in probe.log
        assert "FenceRefused" in probe.log


async def test_the_coordinator_itself_refuses_a_generation_that_has_passed(kafka, prefix):
    """Without our own check of the generation: the heartbeat carries the old one to the broker."""
    create_topics(kafka, [f"{prefix}g"], 2)

    def member():
        return AIOKafkaConsumer(
            f"{prefix}g", bootstrap_servers=kafka, group_id=prefix + "g", session_timeout_ms=6000
        )

    one, two = member(), member()
    await one.start()
    try:
        await one.getmany(timeout_ms=500)
        coordinator = one._coordinator
        first = coordinator.generation
        await confirm(coordinator, first, timeout=3)
        await two.start()
        for _ in range(50):
            await one.getmany(timeout_ms=200)
            await two.getmany(timeout_ms=200)
            if coordinator.generation > first and two.assignment():
                break
        current = coordinator.generation
        assert current > first
        await confirm(coordinator, current, timeout=3)

        class Behind:
            """The same member, still believing in the first generation."""

            def __init__(self):
                self.group_id, self.generation = coordinator.group_id, first
                self.member_id = coordinator.member_id
                self.ensure_coordinator_known = coordinator.ensure_coordinator_known
                self.coordinator_dead = coordinator.coordinator_dead
                self._send_req = coordinator._send_req

        try:
            await confirm(Behind(), first, timeout=3)
            raise AssertionError("an older generation passed")
        except FenceRefused as error:
            assert "IllegalGeneration" in str(error)
    finally:
        await two.stop()
        await one.stop()
        delete_topics(kafka, [f"{prefix}g"])


def test_send_batch_tells_the_highest_offsets_and_keeps_headers(kafka, prefix, tmp_path):
    with probing("send", kafka, prefix + "send", tmp_path) as probe:
        until(lambda: probe.result or probe.process.poll() is not None, 30)
        result = probe.result
        assert result["first"] == {"0": 1, "1": 0}
        assert result["second"] == {"1": 2}
        assert (result["nothing"], result["after"]) == (0, 0)
        assert result["before"] == 5000
        assert result["below"] <= 100
        reader = RdConsumer({"bootstrap.servers": kafka, "group.id": prefix})
        reader.assign([TopicPartition(f"{probe.name}.out", 1, 0)])
        null, headed, plain = reader.consume(3, 20)
        assert (null.key(), null.value(), null.headers()) == (None, None, None)
        assert (headed.key(), headed.headers()) == (b"h", [("name", b"\xff"), ("name", None)])
        assert (plain.key(), plain.headers()) == (b"n", None)
        reader.close()


def test_work_that_raises_ends_the_worker_and_acknowledges_nothing(kafka, prefix, tmp_path):
    with probing("raise", kafka, prefix + "raise", tmp_path) as probe:
        probe.produce((b"a", 0), (b"b", 1))
        assert probe.wait_end() == EXIT_CODE
        assert "unexpected failure, ending the process" in probe.log
        assert "the work failed" in probe.log
        group = RdConsumer({"bootstrap.servers": kafka, "group.id": probe.name})
        places = [TopicPartition(f"{probe.name}.in", p) for p in (0, 1)]
        assert all(place.offset < 0 for place in group.committed(places, 10))
        group.close()


def test_a_failure_beside_the_streams_ends_the_worker(kafka, prefix, tmp_path):
    with probing("vital_failure", kafka, prefix + "vital", tmp_path) as probe:
        assert probe.wait_end() == EXIT_CODE
        assert "a loop beside the streams failed" in probe.log


def test_state_that_cannot_be_decoded_ends_the_worker_before_it_is_overwritten(kafka, prefix, tmp_path):
    with probing("undecodable", kafka, prefix + "undecodable", tmp_path) as probe:
        probe.produce((b"a", 0))
        until(lambda: _committed(probe) == 1)
        probe.process.kill()
        probe.process.wait()
        with probing("undecodable", kafka, probe.name, tmp_path, fresh=False) as second:
            second.produce((b"a", 0))
            assert second.wait_end() == EXIT_CODE
            assert "UnicodeDecodeError" in second.log


def test_the_hooks_frame_the_ownership_and_writing_works_until_it_ends(kafka, prefix, tmp_path):
    with probing("hooks", kafka, prefix + "hooks", tmp_path) as probe:
        probe.produce((b"a", 0), (b"b", 1))
        until(lambda: _committed(probe) == 2)
        probe.process.terminate()
        assert probe.wait_end() == 0
        assert probe.result == [["owned", [0, 1], []], "revoked"]
        with probing("hooks", kafka, probe.name, tmp_path, fresh=False) as second:
            until(lambda: second.log.count("Worker ready") == 2)
            second.process.terminate()
            assert second.wait_end() == 0
            assert second.result == [["owned", [0, 1], ["a", "b", "last"]], "revoked"]


def test_two_tables_of_one_worker_are_recovered_claimed_and_given_up_together(kafka, prefix, tmp_path):
    with probing("two", kafka, prefix + "two", tmp_path) as probe:
        probe.produce((b"a", 0), (b"b", 1))
        until(lambda: _committed(probe) == 2)
        probe.process.terminate()
        assert probe.wait_end() == 0
        second = ["a-second", "b-second", "by the first"]
        assert probe.result[:2] == [["owned", [0, 1], []], ["second owned", [0, 1], ["by the first"]]]
        assert probe.result[2:] == ["revoked", "second revoked"]
        with probing("two", kafka, probe.name, tmp_path, fresh=False) as again:
            until(lambda: again.log.count("Worker ready") == 2)
            again.process.terminate()
            assert again.wait_end() == 0
            first = ["a", "after the first ended", "b", "last"]
            assert again.result[:2] == [["owned", [0, 1], first], ["second owned", [0, 1], second]]


def test_stable_end_is_the_last_stable_offset_and_known_without_any_record(kafka, prefix, tmp_path):
    with probing("ends", kafka, prefix + "ends", tmp_path) as probe:
        until(
            lambda: probe.result and probe.result[-1] == [[0, 0], [0, 0]], 30, "empty partitions stay unknown"
        )
        transaction = probe.producer(**{"transactional.id": probe.name})
        transaction.init_transactions()
        transaction.begin_transaction()
        transaction.produce(f"{probe.name}.in", b"x", b"a", 0)
        transaction.flush()
        probe.produce((b"b", 0), (b"b", 1))  # on partition 0 it lies behind the open transaction
        until(lambda: probe.result[-1] == [[0, 0], [1, 1]], what="the open transaction counts as stable")
        transaction.abort_transaction()
        until(lambda: probe.result[-1] == [[3, 3], [1, 1]], what="the end after the abort is not known")


def _committed(probe: Probe) -> int:
    group = RdConsumer({"bootstrap.servers": probe.bootstrap, "group.id": probe.name})
    places = [TopicPartition(f"{probe.name}.in", p) for p in (0, 1)]
    total = sum(max(0, place.offset) for place in group.committed(places, 10))
    group.close()
    return total
