"""Agents on the transport that fail, hang, are slow, or take records one by one."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from chaos.transport import create_topics, delete_topics
from streams.transport import EXIT_CODE
from tests.command_line import FAUST, Running, start

from .transport_lab import until


@dataclass
class Faulty:
    """A worker of `faulty_app`, its topics and its journal."""

    bootstrap: str
    name: str
    folder: Path
    fault: str
    processes: list[Running] = field(default_factory=list)

    def start(self, **environment: str) -> Running:
        settings = {"FAULT_ID": self.name, "FAULT_BOOTSTRAP": self.bootstrap, "FAULT": self.fault}
        settings["FAULT_JOURNAL"] = str(self.folder / "journal")
        command = [*FAUST, "-A", "tests.integration.faulty_app", "worker", "-l", "info", "--without-web"]
        env = {**os.environ, **settings, **environment}
        self.processes.append(start(command, env=env, log=self.folder / "log"))
        return self.processes[-1]

    def produce(self, topic: str, *values: bytes | None, partition: int = 0, **more: object) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 1})
        for value in values:
            producer.produce(f"{self.name}.{topic}", value, b"k", partition, **more)
        producer.flush()

    def journal(self, kind: str) -> list[list]:
        """The notes of one kind, without their time."""
        return [note[2:] for note in self.notes() if note[1] == kind]

    def notes(self) -> list[list]:
        try:
            return [orjson.loads(line) for line in (self.folder / "journal").read_bytes().splitlines()]
        except FileNotFoundError:
            return []

    def committed(self, topic: str) -> list[int]:
        group = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name})
        places = [TopicPartition(f"{self.name}.{topic}", p) for p in (0, 1)]
        offsets = [max(0, place.offset) for place in group.committed(places, 10)]
        group.close()
        return offsets


@contextmanager
def faulty(fault: str, bootstrap: str, prefix: str, folder: Path) -> Iterator[Faulty]:
    name = prefix + fault
    topics = [f"{name}.{topic}" for topic in ("batched", "single", "taken")]
    create_topics(bootstrap, topics, 2)
    made = Faulty(bootstrap, name, folder, fault)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()
        delete_topics(bootstrap, topics)


@pytest.mark.parametrize("topic", ["batched", "single"])
def test_br_01_what_an_agent_failed_on_is_handled_after_the_restart(kafka, prefix, tmp_path, topic):
    values = [b"%d" % i for i in range(9)]
    with faulty("fifth", kafka, prefix, tmp_path) as worker:
        worker.produce(topic, *values)
        assert worker.start(FAULT_RAISE="1").wait(30) == EXIT_CODE
        assert worker.committed(topic)[0] <= 5
        worker.start()
        until(lambda: worker.committed(topic)[0] == 9, 30)
        handled = Counter(value for (value,) in worker.journal(topic))
        assert set(handled) == {"0", "1", "2", "3", "4", "5", "6", "7", "8"}
        assert handled["5"] == 1


def test_br_03_commits_never_pass_a_slow_record_that_later_ones_have_overtaken(kafka, prefix, tmp_path):
    with faulty("concurrency", kafka, prefix, tmp_path) as worker:
        worker.produce("single", *[b"%d" % i for i in range(51)])
        process = worker.start(FAULT_RAISE="1")
        until(lambda: len(worker.journal("single")) == 50, 30, "the second agent doesn't go on")
        time.sleep(2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert worker.committed("single")[0] == 0
        assert ["0"] not in worker.journal("single")
        worker.start()
        until(lambda: worker.committed("single")[0] == 51, 30)
        assert ["0"] in worker.journal("single")


def test_br_09_a_hung_agent_is_told_and_holds_up_no_other_partition(kafka, prefix, tmp_path):
    with faulty("hang", kafka, prefix, tmp_path) as worker:
        worker.produce("single", b"hang")
        worker.start()
        until(lambda: worker.journal("alarms") == [[["stalled"]]], 30, "nobody says that it hangs")
        worker.produce("batched", b"a", b"b", partition=1)
        until(lambda: worker.committed("batched")[1] == 2)
        assert worker.committed("single") == [0, 0]
        assert "look for a call without a timeout" in (tmp_path / "log").read_text()


def test_br_10_a_blocked_topic_holds_up_no_other(kafka, prefix, tmp_path):
    with faulty("slow", kafka, prefix, tmp_path) as worker:
        for partition in (0, 1):  # far more than the buffers of its stream hold
            worker.produce("batched", *[b"x" * 100] * 30_000, partition=partition)
        worker.start()
        until(lambda: worker.journal("monitor"), 30)
        time.sleep(2)
        sent = {}
        for i in range(30):
            sent[str(i)] = time.time()
            worker.produce("single", b"%d" % i, partition=i % 2)
            time.sleep(0.1)
        until(lambda: len(worker.journal("single")) == 30, 10, "the other topic stands still")
        lateness = sorted(at - sent[value] for at, kind, value in _singles(worker))
        assert lateness[15] < 0.3, lateness
        assert lateness[-1] < 2.0, lateness
        until(lambda: sum(worker.committed("single")) == 30)
        assert worker.journal("batched") == []


def test_what_waits_for_a_slow_agent_is_bounded_by_bytes(kafka, prefix, tmp_path):
    with faulty("slow", kafka, prefix, tmp_path) as worker:
        for partition in (0, 1):
            worker.produce("batched", *[os.urandom(700_000)] * 80, partition=partition)
        process = worker.start(FAULT_BUFFER="1000")
        until(lambda: [n for (n,) in worker.journal("bytes") if n > 60_000_000], 40, "hardly anything waits")
        time.sleep(5)
        assert max(n for (n,) in worker.journal("bytes")) <= 68_000_000
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak_kib < 300_000, "112 MB were there to be read"


def _singles(worker):
    return [note for note in worker.notes() if note[1] == "single"]


def test_agents_can_take_the_records_of_batches_one_by_one_or_in_lists(kafka, prefix, tmp_path):
    with faulty("views", kafka, prefix, tmp_path) as worker:
        values = [b"%d" % i for i in range(95)]
        worker.produce("batched", *values, headers=[("a", b"1"), ("a", b"2")])
        worker.produce("batched", None, partition=1)
        worker.produce("taken", *values)
        process = worker.start()
        until(lambda: worker.committed("batched") == [95, 1] and worker.committed("taken") == [95, 0], 30)
        events = [note for note in worker.journal("event") if note[1] is not None]
        assert events == [["k", str(i), [["a", "1"], ["a", "2"]]] for i in range(95)]
        assert worker.journal("event").count(["k", None, []]) == 1
        lists = [values for (values,) in worker.journal("taken")]
        assert [value for values in lists for value in values] == [str(i) for i in range(95)]
        assert all(len(values) <= 10 for values in lists)
        assert sum(len(values) == 10 for values in lists) >= 8
        counted = [191, 191, {"batched": 96, "taken": 95}]
        until(lambda: worker.journal("monitor")[-1] == counted, what=worker.journal("monitor")[-1])
        process.terminate()
        assert process.wait(10) == 0
