"""The worker of `bench.recovery`: it holds a table of contacts and nothing else."""

from __future__ import annotations

import os

import faust

from bench.recovery import PARTITIONS
from streams.contact import decode_contact, encode_contact
from streams.transport import Batched, Table, create_table, each_batch

ID = os.environ["BENCH_ID"]

app = faust.App(
    ID,
    broker=f"batched://{os.environ['BENCH_BOOTSTRAP']}",
    store="batchmem://",
    Table=Table,
    web_enabled=False,
    datadir=os.environ["BENCH_DATA"],
    topic_partitions=PARTITIONS,
    topic_disable_leader=True,
    stream_recovery_delay=0.0,
    stream_buffer_maxsize=16,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.5,
    table_standby_replicas=0,
)
contacts = create_table(app, "contacts", partitions=PARTITIONS, encode=encode_contact, decode=decode_contact)


async def agent(stream: faust.StreamT[bytes]) -> None:
    """Nothing comes."""

    async def work(records: object, partition: int) -> None:
        """Nothing to do."""

    await each_batch(stream, work)


app.agent(app.topic(f"{ID}.in", schema=Batched(), partitions=PARTITIONS))(agent)
