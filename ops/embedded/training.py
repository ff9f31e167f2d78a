"""Training the JVM's archive of Kafka's classes, once; it takes most of the time off every later start.

The JVM writes it when the trained broker ends, which takes up to 20 s. So that is a broker of its own, run
after the stack is up, at the lowest priority: `python -m ops.embedded.training HOME JAVA HEAP_MB`. A fourth
argument is the heap of Kafka Connect, which is then trained, too.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import structlog

from ops.cdc.files import worker_environment
from ops.cdc.rest import Connect
from ops.embedded.archive import ENDINGS
from ops.embedded.connect import EmbeddedConnect
from ops.embedded.folder import DataFolder, find_folder, open_folder
from ops.embedded.java import JavaChoice, train_flags
from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.server import Server
from ops.errors import NotRunning
from settings import Settings

log = structlog.get_logger(__name__)

_DUMP_TIMEOUT_S = 180.0
_RECORDS = 200


def train(kafka: EmbeddedKafka) -> Path:
    """Make the archive for `kafka` (which may run meanwhile) with a broker of its own; returns its path.

    Nothing is done if it exists. Raises what a start raises; half an archive is never seen under its name.
    """
    kafka.resolve()
    target = kafka.archive
    if target.exists():
        return target
    with _training_folder(kafka.folder) as folder:
        draft = folder.root / f"draft{target.suffix}"
        flags = train_flags(kafka.java.release, draft)
        broker = EmbeddedKafka(folder, java=kafka.java, heap_mb=kafka.heap_mb, extra_flags=flags)
        broker.start()
        try:
            _exercise(broker.bootstrap)
        finally:
            broker.stop(_DUMP_TIMEOUT_S)
        _keep(draft, target, broker)
    return target


def train_connect(connect: EmbeddedConnect, kafka_heap_mb: int) -> Path:
    """The same for Kafka Connect, with a worker and a broker of its own; returns the archive's path."""
    connect.resolve()
    target = connect.archive
    if target.exists():
        return target
    with _training_folder(connect.folder) as folder:
        draft = folder.root / f"draft{target.suffix}"
        with EmbeddedKafka(folder, java=connect.java, heap_mb=kafka_heap_mb) as broker:
            environment = worker_environment(Settings(), broker.bootstrap, "postgresql://")
            flags = train_flags(connect.java.release, draft)
            worker = EmbeddedConnect(
                folder, lambda: environment, java=connect.java, heap_mb=connect.heap_mb, extra_flags=flags
            )
            worker.start()
            try:
                with Connect(worker.url) as rest:
                    rest.names()
            finally:
                worker.stop(_DUMP_TIMEOUT_S)
            _keep(draft, target, worker)
    return target


@contextlib.contextmanager
def _training_folder(of: DataFolder) -> Iterator[DataFolder]:
    """A data folder for a training, which knows the jars already."""
    _sweep(of.cache)
    with tempfile.TemporaryDirectory(prefix="training-", dir=of.cache) as place:
        folder = open_folder(Path(place) / "home")
        for note in of.cache.glob("*-jars.json"):
            shutil.copy(note, folder.cache)
        yield folder


def _keep(draft: Path, target: Path, server: Server) -> None:
    if draft.exists():
        draft.replace(target)
        _forget_others(target)
        log.info("archive_trained", file=target.name, mib=target.stat().st_size >> 20)
    else:
        log.warning("archive_not_written", why=server.failure("wrote no archive"))


def _sweep(cache: Path) -> None:
    """Drop what a training that was killed left behind."""
    for left in cache.glob("training-*"):
        shutil.rmtree(left, ignore_errors=True)


def _forget_others(archive: Path) -> None:
    """Archives for other Javas, jars and flags take 60 MiB each and are never looked at again."""
    program = archive.name.partition("-")[0]
    for other in archive.parent.glob(f"{program}-*"):
        if other.suffix in ENDINGS and other != archive:
            other.unlink(missing_ok=True)


def _exercise(bootstrap: str) -> None:
    """A little of what a broker does, so that its classes are in the archive."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("training", 2, 1)]).values():
        future.result(30)
    # quiet: the first try for a producer id meets a coordinator that is just loading
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 3})
    for number in range(_RECORDS):
        producer.produce("training", key=str(number), value=b"x" * 100)
    producer.flush(30)
    group = {"bootstrap.servers": bootstrap, "group.id": "training", "auto.offset.reset": "earliest"}
    consumer = Consumer(group)
    consumer.subscribe(["training"])
    try:
        left = _RECORDS
        while left > 0 and (got := consumer.consume(left, timeout=5)):
            left -= len(got)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def main(arguments: list[str]) -> None:
    """Train for the Kafka of the data folder HOME with the settings it is run with."""
    home, choice, heap, *connect_heap = arguments
    folder = find_folder(home)
    if folder is None:
        raise NotRunning(f"{home} is no data folder; `rajada up` makes it.")
    java = cast(JavaChoice, choice)
    train(EmbeddedKafka(folder, java=java, heap_mb=int(heap)))
    for megabytes in connect_heap:
        train_connect(EmbeddedConnect(folder, dict, java=java, heap_mb=int(megabytes)), int(heap))


if __name__ == "__main__":
    main(sys.argv[1:])
