"""The worker that the transport's chaos runs hurt: it counts the records of each key in a table.

Everything comes from the environment (the runner sets it): CHAOS_ID (app id and topic prefix),
CHAOS_BOOTSTRAP, CHAOS_DIR, CHAOS_WORKER, CHAOS_PARTITIONS, CHAOS_SESSION (s), CHAOS_COMMIT (s, interval),
CHAOS_DELAY_MS (per batch), CHAOS_DECODE_MS (per changelog record: makes recovery slow), CHAOS_LOOKUP_MS
(per look-up of committed offsets),
CHAOS_TABLES (0 to 2, all of them count the same), CHAOS_STANDBY (replicas), CHAOS_SNAPSHOT (records after
which local state is written; 0: never), CHAOS_DATA (its folder), CHAOS_STATIC
(group.instance.id), CHAOS_STUCK (`1`: recovery never gets on),
CHAOS_GUARD (`0`: no lease, no fence: the audit must notice), CHAOS_JUMP (`1`: move the fetch position
behind the consumer's back).

What it processed it appends, record by record, to a file that survives kill -9.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import sleep, time
from typing import Any

import faust
import orjson
from aiokafka.consumer.group_coordinator import GroupCoordinator

from streams.transport import (
    Batched,
    Record,
    Table,
    changelog,
    create_table,
    each_batch,
    oversight,
    producer,
    vital,
)

ID = os.environ["CHAOS_ID"]
WORKER = int(os.environ.get("CHAOS_WORKER", "0"))
PARTITIONS = int(os.environ.get("CHAOS_PARTITIONS", "6"))
DELAY = float(os.environ.get("CHAOS_DELAY_MS", "0")) / 1000
TABLES = ("counts", "again")[: int(os.environ.get("CHAOS_TABLES", "1"))]
LOOKUP = float(os.environ.get("CHAOS_LOOKUP_MS", "0")) / 1000
STANDBY = int(os.environ.get("CHAOS_STANDBY", "0"))
SNAPSHOT = int(os.environ.get("CHAOS_SNAPSHOT", "0"))
SLOWNESS = float(os.environ.get("CHAOS_DECODE_MS", "0")) / 1000
GUARDED = os.environ.get("CHAOS_GUARD", "1") == "1"
FOLDER = Path(os.environ["CHAOS_DIR"])
PAUSE = 0.25

app = faust.App(
    ID,
    broker=f"batched://{os.environ['CHAOS_BOOTSTRAP']}",
    store="batchmem://",
    Table=Table,
    web_enabled=False,
    datadir=os.environ.get("CHAOS_DATA") or str(FOLDER / f"data-{WORKER}"),
    topic_partitions=PARTITIONS,
    topic_disable_leader=True,
    stream_recovery_delay=0.0,
    stream_wait_empty=True,
    stream_buffer_maxsize=16,
    consumer_auto_offset_reset="earliest",
    producer_linger=0.005,
    consumer_group_instance_id=os.environ.get("CHAOS_STATIC"),
    broker_session_timeout=float(os.environ.get("CHAOS_SESSION", "3")),
    broker_heartbeat_interval=1.0,
    broker_rebalance_timeout=10.0,
    broker_commit_interval=float(os.environ.get("CHAOS_COMMIT", "0.5")),
    table_standby_replicas=STANDBY,
)
source = app.topic(f"{ID}.in", schema=Batched(), partitions=PARTITIONS)
single = app.topic(
    f"{ID}.one", key_type=bytes, key_serializer="raw", value_type=bytes, value_serializer="raw",
    partitions=PARTITIONS,
)  # fmt: skip


changelog.SNAPSHOT_EVERY, changelog.SNAPSHOT_INTERVAL = SNAPSHOT, 0.3
if LOOKUP:
    look_up = GroupCoordinator._do_fetch_commit_offsets

    async def slowly(*args: Any) -> Any:
        """A look-up of committed offsets over a slow network."""
        app.log.info("LOOKUP")
        await asyncio.sleep(LOOKUP)
        return await look_up(*args)

    GroupCoordinator._do_fetch_commit_offsets = slowly

tables: list[Table[dict[str, Any]]] = [
    create_table(
        app, name, partitions=PARTITIONS, encode=orjson.dumps, decode=orjson.loads, snapshots=bool(SNAPSHOT)
    )
    for name in TABLES
]
for table in tables:
    table.fenced = GUARDED
if not GUARDED:
    producer.MESSAGE_TIMEOUT = 100.0  # what lay in the queue while the process was stopped is written, too
if SLOWNESS:

    def slowed(apply: Any) -> Any:
        """Recovery as slow as the run wants it to be."""

        def applied(partition: int, start: int, end: int, first: bool, changes: Sequence[Record]) -> bool:
            sleep(SLOWNESS * len(changes))
            taken: bool = apply(partition, start, end, first, changes)
            return taken

        return applied

    for table in tables:
        vars(table.local)["apply"] = slowed(table.local.apply)
if os.environ.get("CHAOS_STUCK") == "1":
    oversight.RECOVERY_PATIENCE = 5.0
    for table in tables:
        vars(table.local)["apply"] = lambda *_: False
journal = os.open(FOLDER / f"processed-{WORKER}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

SIGNED = [("worker", b"%d" % WORKER)]
owned: dict[str, set[int]] = {name: set() for name in TABLES}
touched: dict[bytes, int] = {}
idle = asyncio.Event()
idle.set()  # a worker may be stopped before its announcer has begun


def note(kind: bytes, offsets: Sequence[tuple[int, int]]) -> None:
    """Append what was processed to the journal, in one write."""
    now = time()
    os.write(journal, b"".join(b"%s %d %d %.3f\n" % (kind, p, offset, now) for p, offset in offsets))


def count(before: Mapping[str, Any] | None, offset: int) -> dict[str, Any] | None:
    """The state after the record at `offset`; None when the state has seen it."""
    if before is None:
        return {"last": offset, "n": 1, "sum": offset, "worker": WORKER}
    if offset <= before["last"]:
        return None
    return {"last": offset, "n": before["n"] + 1, "sum": before["sum"] + offset, "worker": WORKER}


async def work(records: Sequence[Record], partition: int) -> None:
    """Count a batch and write its changelog."""
    if DELAY:
        await asyncio.sleep(DELAY)
    for table in tables:
        if GUARDED and partition not in owned[table.name]:
            raise AssertionError(f"a batch of partition {partition} before when_owned (told: {owned})")
        for record in records:
            key = record.key or b""
            after = count(table.get(key, partition), record.offset)
            if after is not None:
                table.put(key, after, partition)
                touched[key] = partition
        table.flush()
    if not tables:
        app.producer.send_batch(f"{ID}.out", [(r.key, r.value, partition, SIGNED) for r in records])
    note(b"i", [(partition, record.offset) for record in records])


async def counting(stream: Any) -> None:
    """The batched path."""
    await each_batch(stream, work, lease=GUARDED)


async def one_by_one(stream: Any) -> None:
    """Faust's own path, record by record."""
    async for event in stream.events():
        note(b"o", [(event.message.partition, event.message.offset)])


def begin(table: Table[dict[str, Any]], partitions: set[int]) -> None:
    """The announcer may work, once all tables are ours."""
    owned[table.name] = set(partitions)
    touched.clear()
    for one in tables:
        for partition in partitions & one.owned:
            touched.update((key, partition) for key in one.partition_keys(partition))
            key = next(one.partition_keys(partition), None)
            if key is not None:  # whoever is told may write in all tables
                one.put(key, one.get(key, partition), partition)
        one.flush()


async def end(table: Table[dict[str, Any]]) -> None:
    """The announcer must come to rest."""
    owned[table.name] = set()
    await idle.wait()


for table in tables:
    table.when_owned(functools.partial(begin, table))
    table.when_revoked(functools.partial(end, table))


async def announce() -> None:
    """One round of work beside the streams: durable, fenced, sent."""
    keys = [(key, touched.pop(key)) for key in list(touched)[:500]]
    for table in tables:
        await table.flush()
    if GUARDED:
        await app.consumer.fence()
    told = [(key, orjson.dumps(tables[0].get(key, partition)), partition, SIGNED) for key, partition in keys]
    await app.producer.send_batch(f"{ID}.out", told)
    for partition in sorted(tables[0].owned):
        done = app.consumer.applied(f"{ID}.in", partition)
        known = app.consumer.stable_end(f"{ID}.in", partition)
        if done is not None and known is not None and done > known:
            raise AssertionError(f"finished up to {done}, but the log is known up to {known}")


async def announcer() -> None:
    """Announce while partitions are owned."""
    while True:
        await asyncio.sleep(PAUSE)
        if touched and all(owned.values()):
            idle.clear()
            try:
                await announce()
            finally:
                idle.set()


async def counters() -> None:
    """Log the consumer's counters for the runner."""
    while True:
        await asyncio.sleep(1)
        consumer = app.consumer
        app.log.info(
            "COUNTERS refetches=%d stale=%d holes=%d lag=%d keys=%d",
            consumer.refetches, consumer.stale_fetches, consumer.holes,
            sum(at.delivered - at.committed for at in consumer.ledger.progress().values()),
            sum(len(table) for table in tables),
        )  # fmt: skip


async def jump() -> None:
    """Move the fetch position as a bug or a reset would."""
    dice = random.Random(WORKER)
    while True:
        await asyncio.sleep(0.7)
        await app.consumer._thread.call_thread(_jump, dice)


async def _jump(dice: random.Random) -> None:
    kafka = app.consumer._thread._consumer
    subscription = kafka._subscription.subscription
    assignment = subscription.assignment if subscription else None
    if assignment is None:
        return
    for tp in assignment.tps:
        position = assignment.state_value(tp)._position
        if tp.topic.endswith((".in", ".one")) and position:
            kafka._fetcher.seek_to(tp, max(0, position + dice.choice([-7, 5, 40])))


app.agent(source)(counting)
app.agent(single)(one_by_one)
app.task(vital(announcer))
app.task(counters)
if os.environ.get("CHAOS_JUMP") == "1":
    app.task(jump)
