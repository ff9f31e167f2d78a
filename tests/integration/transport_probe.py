"""A worker that tries one thing (PROBE) and writes what it saw to PROBE_RESULT."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import faust
import orjson

from streams.transport import Batched, Table, create_table, each_batch, vital

ID, PROBE, RESULT = os.environ["PROBE_ID"], os.environ["PROBE"], Path(os.environ["PROBE_RESULT"])

app = faust.App(
    ID,
    broker=f"batched://{os.environ['PROBE_BOOTSTRAP']}",
    store="batchmem://",
    Table=Table,
    web_enabled=False,
    datadir=str(RESULT.parent / "data"),
    topic_partitions=2,
    topic_disable_leader=True,
    stream_recovery_delay=0.0,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=3.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=0.5,
    table_standby_replicas=0,
)
topic = app.topic(f"{ID}.in", schema=Batched(), partitions=2)


def decode(value: bytes) -> str:
    return value.decode("ascii")


table: Table[str] = create_table(app, "t", partitions=2, encode=str.encode, decode=decode)
second: Table[str] | None = None
if PROBE == "two":
    second = create_table(app, "second", partitions=2, encode=str.encode, decode=decode)
calls: list[object] = []
owned = asyncio.Event()


def tell(result: object) -> None:
    RESULT.write_bytes(orjson.dumps(result))


async def work(records, partition):
    if PROBE == "raise":
        raise ValueError("the work failed")
    if PROBE == "hold":
        return
    for record in records:
        table.get(record.key, partition)
        table.put(record.key, "été" if PROBE == "undecodable" else "v", partition)
        if second is not None:
            second.put(record.key + b"-second", f"v{partition}", partition)
    await table.flush()
    if second is not None:
        await second.flush()


async def agent(stream):
    await each_batch(stream, work)


app.agent(topic)(agent)


@table.when_owned
def begin(partitions):
    calls.append(["owned", sorted(partitions), sorted(key.decode() for key in table)])
    if second is not None:  # told of one table, one may write in all
        second.put(b"by the first", "v", 1)
        second.flush()
    owned.set()


@table.when_revoked
async def end():
    await app.consumer.fence()  # still ours
    table.put(b"last", "written while giving up", 0)
    await table.flush()
    calls.append("revoked")
    tell(calls)


if second is not None:

    @second.when_owned
    def begin_second(partitions):
        calls.append(["second owned", sorted(partitions), sorted(key.decode() for key in second)])

    @second.when_revoked
    async def end_second():
        table.put(b"after the first ended", "v", 1)
        await table.flush()
        calls.append("second revoked")
        tell(calls)


async def send():
    """What send_batch returns, and that headers, null keys and null values arrive."""
    producer = app.producer
    first = await producer.send_batch(f"{ID}.out", [(b"k", b"v", 0), (b"k", b"v", 0), (None, None, 1)])
    headers = [("name", b"\xff"), ("name", None)]
    second = await producer.send_batch(f"{ID}.out", [(b"h", b"v", 1, headers), (b"n", b"v", 1, None)])
    nothing = await producer.send_batch(f"{ID}.out", [])
    await producer.send_batch(f"{ID}.large", [(b"large", b"x" * 4_000_000, 0)])
    futures = [producer.send_batch(f"{ID}.out", [(b"k%d" % i, b"v", -1)]) for i in range(5000)]
    before = producer.outstanding
    await producer.below(100)
    below = producer.outstanding
    for future in futures:
        await future
    tell(
        {
            "first": {str(p): offset for p, offset in first.items()},
            "second": {str(p): offset for p, offset in second.items()},
            "nothing": len(nothing),
            "before": before,
            "below": below,
            "after": producer.outstanding,
        }
    )


async def ends():
    """`stable_end` and `applied`, whenever they change."""
    seen: list[object] = []
    while True:
        now = [[app.consumer.stable_end(f"{ID}.in", p), app.consumer.applied(f"{ID}.in", p)] for p in (0, 1)]
        if not seen or now != seen[-1]:
            seen.append(now)
            tell(seen)
        await asyncio.sleep(0.02)


async def stale():
    """The fence of a generation that has passed."""
    await app.consumer.fence()
    tell("the fence passed for the owner")
    app.consumer.generation -= 1
    await app.consumer.fence()
    tell("the fence passed for a stranger")


async def vital_failure():
    raise ValueError("a loop beside the streams failed")


async def probe():
    if PROBE == "ends":
        await ends()
    await owned.wait()
    if PROBE in ("send", "stale", "vital_failure"):
        await {"send": send, "stale": stale, "vital_failure": vital_failure}[PROBE]()


app.task(vital(probe))
