"""A pair of source topics, workers of `chaos.app` on them, and what they processed and committed."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from chaos.audit import Log, read_journals
from chaos.transport import create_topics, delete_topics, wait_ready
from chaos.workers import Worker, Workers

PARTITIONS = 6
Place = tuple[str, int, int]


@dataclass
class Lab:
    """Everything that a test of a live worker needs."""

    bootstrap: str
    name: str
    folder: Path
    workers: Workers
    log: Log
    delivered: set[Place] = field(default_factory=set)

    @property
    def topic(self) -> str:
        """The batched source topic."""
        return f"{self.name}.in"

    @property
    def single(self) -> str:
        """The source topic that is consumed record by record."""
        return f"{self.name}.one"

    @property
    def sources(self) -> list[str]:
        """Both."""
        return [self.topic, self.single]

    @property
    def changelog(self) -> str:
        """The changelog of the workers' table."""
        return f"{self.name}-counts-changelog"

    def producer(self, **settings: object) -> Producer:
        """A producer of test records."""
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 2, **settings})

    def start(self, static: str | None = None, **more: str) -> Worker:
        """Start a worker (with settings of its own) and wait until it works."""
        worker = self.workers.start(static, **more)
        wait_ready(worker)
        return worker

    def processed(self) -> Counter[Place]:
        """How often each record was processed, by any worker."""
        return read_journals(self.folder, self.name)[0]

    def wait_committed(self, timeout: float = 30.0) -> None:
        """Wait until the group has committed both topics to their ends; fails with what is left."""
        self.log.wait_committed(timeout, patience=timeout)
        left = {
            p: (done, end) for p, end in self.log.ends().items() if (done := self.log.committed()[p]) < end
        }
        assert not left, f"committed of end: {left}\n{self.logs()[-3000:]}"

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete what lies below an offset, per partition; -1: all of it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # must live until its futures are done
        policy = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        topic_config = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[policy])
        for future in admin.incremental_alter_configs([topic_config]).values():  # a compacted one refuses
            future.result(20)
        cut = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for attempt in range(20):  # the broker that holds a partition hears of its new policy a little later
            try:
                for future in admin.delete_records(cut).values():
                    future.result(20)
                return
            except KafkaException as error:
                if attempt == 19 or error.args[0].code() != KafkaError.POLICY_VIOLATION:
                    raise
                sleep(0.25)

    def write_changelog(self, keys: int) -> None:
        """Make the workers' changelog and fill it, as a tool would: without tokens."""
        create_topics(self.bootstrap, [self.changelog], PARTITIONS, {"cleanup.policy": "compact"})
        producer = self.producer(**{"queue.buffering.max.messages": 200_000})
        for i in range(keys):
            producer.produce(
                self.changelog, b'{"last":-1,"n":0,"sum":0,"worker":9}', f"filled {i}", i % PARTITIONS
            )
            if i % 1000 == 0:
                producer.poll(0)
                while len(producer) > 100_000:
                    producer.poll(0.1)
        producer.flush()

    def remake(self, topic: str) -> None:
        """Delete a topic and create it anew under its name."""
        delete_topics(self.bootstrap, [topic])
        deadline = monotonic() + 20
        while True:
            try:
                create_topics(self.bootstrap, [topic], PARTITIONS, {"cleanup.policy": "compact"})
            except KafkaException:  # still being deleted
                assert monotonic() < deadline
                sleep(0.1)
            else:
                return

    def logs(self) -> str:
        """What all workers logged."""
        return "\n".join(worker.log.read_text() for worker in self.workers.all)


@contextmanager
def laboratory(bootstrap: str, prefix: str, folder: Path, **environment: str) -> Iterator[Lab]:
    """A lab that cleans up after itself."""
    name = prefix.rstrip(".")
    topics = [f"{name}.in", f"{name}.one", f"{name}.out"]
    create_topics(bootstrap, topics, PARTITIONS)
    workers = Workers(
        folder,
        {
            "CHAOS_ID": name,
            "CHAOS_BOOTSTRAP": bootstrap,
            "CHAOS_DIR": str(folder),
            "CHAOS_PARTITIONS": str(PARTITIONS),
            **environment,
        },
    )
    log = Log(bootstrap, name, topics[:2], PARTITIONS)
    try:
        yield Lab(bootstrap, name, folder, workers, log)
    finally:
        workers.finish(10)
        log.close()
        delete_topics(bootstrap, [*topics, f"{name}-counts-changelog"])


def until(condition, timeout: float = 20.0, what: str = "it did not happen") -> None:
    """Wait until `condition()` is true."""
    deadline = monotonic() + timeout
    while not condition():
        assert monotonic() < deadline, what
        sleep(0.1)


def exit_code(worker: Worker, timeout: float = 20.0) -> int:
    """Wait for a worker's end; its exit status."""
    try:
        return worker.process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the worker goes on:\n{worker.log.read_text()[-2000:]}") from None
