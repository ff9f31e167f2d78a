"""Training the JVM's archive of Kafka's classes, once; it takes most of the time off every later start.

The JVM writes it when the trained broker ends, which takes up to 20 s. So that is a broker of its own, run
after the stack is up, at the lowest priority: `python -m ops.embedded.training HOME JAVA HEAP_MB`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import cast

import structlog

from ops.embedded.archive import ENDINGS
from ops.embedded.folder import find_folder, open_folder
from ops.embedded.java import JavaChoice, train_flags
from ops.embedded.kafka import EmbeddedKafka
from ops.errors import NotRunning

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
    _sweep(kafka.folder.cache)
    with tempfile.TemporaryDirectory(prefix="training-", dir=kafka.folder.cache) as place:
        draft = Path(place) / f"draft{target.suffix}"
        folder = open_folder(Path(place) / "home")
        for note in kafka.folder.cache.glob("*-jars.json"):
            shutil.copy(note, folder.cache)
        flags = train_flags(kafka.java.release, draft)
        broker = EmbeddedKafka(folder, java=kafka.java, heap_mb=kafka.heap_mb, extra_flags=flags)
        broker.start()
        try:
            _exercise(broker.bootstrap)
        finally:
            broker.stop(_DUMP_TIMEOUT_S)
        if draft.exists():
            draft.replace(target)
            _forget_others(target)
            log.info("archive_trained", file=target.name, mib=target.stat().st_size >> 20)
        else:
            log.warning("archive_not_written", why=broker.failure("wrote no archive"))
    return target


def _sweep(cache: Path) -> None:
    """Drop what a training that was killed left behind."""
    for left in cache.glob("training-*"):
        shutil.rmtree(left, ignore_errors=True)


def _forget_others(archive: Path) -> None:
    """Archives for other Javas, jars and flags take 60 MiB each and are never looked at again."""
    for other in archive.parent.glob("kafka-*"):
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
    home, choice, heap = arguments
    folder = find_folder(home)
    if folder is None:
        raise NotRunning(f"{home} is no data folder; `rajada up` makes it.")
    train(EmbeddedKafka(folder, java=cast(JavaChoice, choice), heap_mb=int(heap)))


if __name__ == "__main__":
    main(sys.argv[1:])
