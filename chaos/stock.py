"""The chaos runs' worker on Faust's own transport: the same work, for comparison (`--stock`)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from time import time
from typing import Any

import faust
import orjson
from aiokafka.consumer.group_coordinator import GroupCoordinator

ID = os.environ["CHAOS_ID"]
WORKER = int(os.environ.get("CHAOS_WORKER", "0"))
PARTITIONS = int(os.environ["CHAOS_PARTITIONS"])
TABLES = ("counts", "again")[: int(os.environ["CHAOS_TABLES"])]
DELAY = float(os.environ["CHAOS_DELAY_MS"]) / 1000
LOOKUP = float(os.environ["CHAOS_LOOKUP_MS"]) / 1000
FOLDER = Path(os.environ["CHAOS_DIR"])
RAW: dict[str, Any] = {
    "key_type": bytes, "key_serializer": "raw", "value_type": bytes, "value_serializer": "raw",
}  # fmt: skip

app = faust.App(
    ID,
    broker=f"kafka://{os.environ['CHAOS_BOOTSTRAP']}",
    store="memory://",
    web_enabled=False,
    datadir=str(FOLDER / f"data-{WORKER}"),
    topic_partitions=PARTITIONS,
    topic_disable_leader=True,
    stream_recovery_delay=0.0,
    stream_wait_empty=True,
    consumer_auto_offset_reset="earliest",
    consumer_group_instance_id=os.environ.get("CHAOS_STATIC"),
    producer_linger=0.005,
    producer_acks=-1,
    broker_session_timeout=float(os.environ["CHAOS_SESSION"]),
    broker_heartbeat_interval=1.0,
    broker_rebalance_timeout=10.0,
    broker_commit_interval=0.5,
    table_standby_replicas=int(os.environ["CHAOS_STANDBY"]),
)
source = app.topic(f"{ID}.in", partitions=PARTITIONS, **RAW)
single = app.topic(f"{ID}.one", partitions=PARTITIONS, **RAW)
tables = [app.Table(name, key_type=bytes, value_type=bytes, partitions=PARTITIONS) for name in TABLES]
journal = os.open(FOLDER / f"processed-{WORKER}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

if LOOKUP:
    look_up = GroupCoordinator._do_fetch_commit_offsets

    async def slowly(*args: Any) -> Any:
        """A look-up of committed offsets over a slow network."""
        await asyncio.sleep(LOOKUP)
        return await look_up(*args)

    GroupCoordinator._do_fetch_commit_offsets = slowly


def note(kind: bytes, event: Any) -> None:
    """Append what was processed to the journal."""
    os.write(journal, b"%s %d %d %.3f\n" % (kind, event.message.partition, event.message.offset, time()))


async def counting(stream: Any) -> None:
    """Count the records of each key."""
    async for event in stream.events():
        if DELAY:
            await asyncio.sleep(DELAY / 30)  # the other worker waits once for a batch
        offset = event.message.offset
        for table in tables:
            before = orjson.loads(table[event.key]) if event.key in table else {"last": -1, "n": 0, "sum": 0}
            if offset > before["last"]:
                table[event.key] = orjson.dumps(
                    {
                        "last": offset,
                        "n": before["n"] + 1,
                        "sum": before["sum"] + offset,
                        "worker": WORKER,
                    }
                )
        note(b"i", event)


async def one_by_one(stream: Any) -> None:
    """The topic without a table."""
    async for event in stream.events():
        note(b"o", event)


app.agent(source)(counting)
app.agent(single)(one_by_one)
