"""The benchmark's worker: bursts on the transport, with durable changelog, fence and sends."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from bench.app import measured_app
from bench.bursts import Contact, collect, jobs
from streams.transport import Batched, Record, Table, create_table, each_batch, vital

ID, SOURCE, EVENTS = os.environ["BENCH_ID"], os.environ["BENCH_SOURCE"], int(os.environ["BENCH_EVENTS"])
PARTITIONS = int(os.environ["BENCH_PARTITIONS"])
RESULT = Path(os.environ["BENCH_RESULT"])

app = measured_app(ID, os.environ["BENCH_BOOTSTRAP"], str(RESULT.parent / "data"), PARTITIONS)
contacts: Table[Contact] = create_table(
    app, "contacts", partitions=PARTITIONS, encode=orjson.dumps, decode=orjson.loads
)
closing: asyncio.Queue[tuple[asyncio.Future[None], list[bytes], int]] = asyncio.Queue()
seen = 0
began: tuple[float, float] | None = None


async def work(records: Sequence[Record], partition: int) -> None:
    """Collect a batch; closing goes on beside the stream."""
    global seen, began
    began = began or (time.monotonic(), time.process_time())
    frozen = collect(
        records,
        lambda key: contacts.get(key, partition),
        lambda key, value: contacts.put(key, value, partition),
    )
    durable = contacts.flush()
    if frozen:
        closing.put_nowait((durable, frozen, partition))
    seen += len(records)
    if seen >= EVENTS:
        asyncio.get_running_loop().create_task(report())


async def close() -> None:
    """Durable, fenced, sent, durable, dropped; as many batches at once as have come meanwhile."""
    while True:
        taken = [await closing.get()]
        while not closing.empty():
            taken.append(closing.get_nowait())
        for durable, _, _ in taken:
            await durable
        await app.consumer.fence()
        keys = dict.fromkeys((key, partition) for _, frozen, partition in taken for key in frozen)
        pairs = [(key, *pair) for key, p in keys for pair in jobs(key, contacts.get(key, p) or {})]
        sent = app.producer.send_batch(f"{ID}.jobs", [(key, job, -1) for key, job, _ in pairs])
        told = app.producer.send_batch(f"{ID}.outcomes", [(key, outcome, -1) for key, _, outcome in pairs])
        await sent
        await told
        for key, partition in keys:
            contact = contacts.get(key, partition)
            if contact is not None:
                contact["frozen"] = []
                contacts.put(key, contact, partition)
        contacts.flush()
        for _ in taken:
            closing.task_done()


async def report() -> None:
    """Write the result when all is durable."""
    await closing.join()
    await app.producer.flush()
    assert began is not None
    wall, cpu = time.monotonic() - began[0], time.process_time() - began[1]
    result = orjson.dumps({"events": seen, "seconds": wall, "cpu": cpu})
    await asyncio.to_thread(RESULT.write_bytes, result)


async def agent(stream: Any) -> None:
    """The source."""
    await each_batch(stream, work)


app.agent(app.topic(SOURCE, schema=Batched(), partitions=PARTITIONS))(agent)
app.task(vital(close))
