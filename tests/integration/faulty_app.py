"""A worker whose agents misbehave (FAULT); what they have handled they append to FAULT_JOURNAL."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import faust
import orjson

from streams.transport import Batched, Stream, each_batch

ID, FAULT, JOURNAL = os.environ["FAULT_ID"], os.environ["FAULT"], Path(os.environ["FAULT_JOURNAL"])
RAISE = os.environ.get("FAULT_RAISE") == "1"

app = faust.App(
    ID,
    broker=f"batched://{os.environ['FAULT_BOOTSTRAP']}",
    store="memory://",
    Stream=Stream,
    web_enabled=False,
    datadir=str(JOURNAL.parent / "data"),
    topic_partitions=2,
    topic_disable_leader=True,
    stream_recovery_delay=0.0,
    stream_buffer_maxsize=int(os.environ.get("FAULT_BUFFER", "16")),
    stream_wait_empty=True,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=3.0,
    broker_heartbeat_interval=0.5,
    broker_rebalance_timeout=8.0,
    broker_commit_interval=0.3,
    broker_commit_livelock_soft_timeout=2.0,
    table_standby_replicas=0,
)
RAW = {"key_type": bytes, "key_serializer": "raw", "value_type": bytes, "value_serializer": "raw"}
batched = app.topic(f"{ID}.batched", schema=Batched(), partitions=2)
single = app.topic(f"{ID}.single", partitions=2, **RAW)


def note(*what: object) -> None:
    with JOURNAL.open("ab") as file:
        file.write(orjson.dumps([time.time(), *what], default=repr) + b"\n")


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


async def handle(where: str, value: bytes | None) -> None:
    """What is done with a record, by either kind of agent."""
    if FAULT == "fifth" and RAISE and value == b"5":
        raise ValueError("the fifth can't be handled")
    if FAULT == "hang" and value == b"hang":
        await asyncio.Event().wait()
    if FAULT == "concurrency" and RAISE and value == b"0":
        await asyncio.sleep(100)
    note(where, text(value))


async def batches(stream):
    async def work(records, partition):
        if FAULT == "slow":
            await asyncio.sleep(60)
        for record in records:
            await handle("batched", record.value)

    await each_batch(stream, work)


async def one_by_one(stream):
    async for value in stream:
        await handle("single", value)


async def events(stream):
    async for event in stream.events():
        note("event", text(event.key), text(event.value), [[n, text(v)] for n, v in event.headers])


async def taken(stream):
    async for values in stream.take(10, within=0.5):
        note("taken", [text(value) for value in values])


if FAULT == "views":
    app.agent(batched)(events)
    app.agent(app.topic(f"{ID}.taken", schema=Batched(), partitions=2))(taken)
else:
    app.agent(batched)(batches)
    app.agent(single, concurrency=2 if FAULT == "concurrency" else 1)(one_by_one)


@app.task
async def watch():
    app.consumer.alarms.on_change = lambda active: note("alarms", sorted(active))
    while True:
        await asyncio.sleep(0.5)
        monitor = app.monitor
        by_topic = {name[len(ID) + 1 :]: n for name, n in monitor.messages_received_by_topic.items()}
        note("bytes", app.consumer.counters()["transport_bytes_in_flight"])
        note("monitor", monitor.events_total, monitor.messages_received_total, by_topic)
