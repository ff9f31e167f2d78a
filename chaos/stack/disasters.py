"""Disasters as an operator meets them, each with what docs/disasters.md tells to do about it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from chaos.stack.running import PREFIX, Running
from ops.embedded.postgres_place import give
from ops.embedded.postgres_programs import ENVIRONMENT
from schemas.topic_names import OUTCOMES

WORKERS: Final = ("worker-1", "worker-2", "worker-3")
SLOT: Final = "chaos"
BACKUP_S: Final = 180.0
CAUGHT_UP_S: Final = 180.0
UP_S: Final = 120.0
UNREAD_S: Final = 3.0
"""So long events come in that no worker reads, before they are deleted."""


def backup_folder(running: Running) -> Path:
    """Where the backup lies."""
    return running.servers.folder / "backup"


def make_backup(running: Running) -> None:
    """A physical backup of the running Postgres, as pg_basebackup makes it: without slots."""
    postgres, target = running.servers.postgres, backup_folder(running)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(mode=0o700)
    give(target, postgres.identity)
    program = postgres.programs.postgres.parent / "pg_basebackup"
    command = [str(program), "-D", str(target), "-X", "stream", "-c", "fast", "-d", postgres.url]
    identity = postgres.identity
    done = subprocess.run(
        [*identity.prefix, *command], user=identity.uid, group=identity.gid, cwd="/", env=ENVIRONMENT,
        extra_groups=None if identity.uid is None else [], capture_output=True, text=True, timeout=BACKUP_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"no backup could be made: {done.stderr[-500:]}")


def can_back_up(running: Running) -> bool:
    """Whether this Postgres came with pg_basebackup."""
    return (running.servers.postgres.programs.postgres.parent / "pg_basebackup").exists()


def restore(running: Running) -> None:
    """Set Postgres back to the last backup, bring it up to date by the sink alone, then let all go on.

    docs/disasters.md, case 3; afterwards a new backup is made, for the next time.
    """
    processes, postgres = running.processes, running.servers.postgres
    running.recorder.pause()
    workers = [name for name in WORKERS if name in processes.members and processes.members[name].wanted]
    processes.leave("relay", *workers)
    running.servers.take(postgres)
    postgres.stop()
    shutil.rmtree(postgres.data)
    # not moved: across file systems that would give the files to us
    subprocess.run(["cp", "-a", str(backup_folder(running)), str(postgres.data)], check=True)
    postgres.start(timeout_s=UP_S)
    running.servers.give_back()
    running.restored = True
    if not running.until(lambda: sink_lag(running) == 0, CAUGHT_UP_S):
        raise RuntimeError(f"the sink did not catch up after a restore: {sink_lag(running)} outcomes to go")
    processes.start("relay", *workers)
    running.hung += processes.wait_ready("relay", *workers, meanwhile=running.servers.keep_up)
    running.recorder.resume()
    make_backup(running)


def drop_slot(running: Running) -> Callable[[], None]:
    """Take the relay's slot away while it is gone for a moment."""
    processes = running.processes
    processes.leave("relay")
    with running.servers.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE slot_name = %s AND active_pid IS NOT NULL",
            [SLOT],
        )
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    return lambda: processes.start("relay")


def pass_retention(running: Running) -> None:
    """Delete all of the source topic while no worker runs: committed offsets lie below its start then.

    docs/disasters.md, case 7: nothing is to be done, the sweep brings back what is pending.
    """
    processes = running.processes
    workers = [name for name in WORKERS if name in processes.members and processes.members[name].wanted]
    processes.leave(*workers)
    running.wait(UNREAD_S)
    processes.send_away("relay")
    running.until(lambda: not processes.members["relay"].alive, 20)
    try:
        running.source.read()
        committed = committed_offsets(running)
        ends = _ends(running, running.source.topic)
        admin = running.servers.admin()
        places = [TopicPartition(running.source.topic, number, end) for number, end in ends.items()]
        for future in admin.delete_records(places).values():
            future.result(20)
        running.source.unread |= {
            place for place in running.source.found if place[1] >= committed.get(place[0], 0)
        }
    finally:
        processes.start("relay", *workers)


def committed_offsets(running: Running) -> dict[int, int]:
    """How far the workers' group has read the source topic, by partition."""
    asked = ConsumerGroupTopicPartitions(running.group)
    admin = running.servers.admin()  # its futures end with it
    found = admin.list_consumer_group_offsets([asked])[running.group].result(20)
    return {
        one.partition: max(one.offset, 0)
        for one in found.topic_partitions
        if one.topic == running.source.topic
    }


def source_lag(running: Running) -> int:
    """Events on the source topic that no worker has done with yet."""
    committed = committed_offsets(running)
    ends = _ends(running, running.source.topic)
    return sum(max(0, end - committed.get(number, 0)) for number, end in ends.items())


def sink_lag(running: Running) -> int:
    """Outcomes that the sink has not written yet."""
    ends = _ends(running, f"{PREFIX}{OUTCOMES}")
    with running.servers.connect() as connection:
        rows = connection.execute(
            "SELECT partition, max(next_offset) FROM rajada.sink_offsets GROUP BY partition"
        ).fetchall()
    written = {int(str(partition)): int(str(offset)) for partition, offset in rows}
    return sum(max(0, end - written.get(number, 0)) for number, end in ends.items())


def _ends(running: Running, topic: str) -> dict[int, int]:
    consumer = Consumer(
        {"bootstrap.servers": running.servers.cluster.bootstrap, "group.id": "chaos-ends", "log_level": 0}
    )
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), 10)[1]
            for number in partitions
        }
    finally:
        consumer.close()
