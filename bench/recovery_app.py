"""The worker of `bench.recovery`: it holds a table of contacts and nothing else."""

from __future__ import annotations

import os

import faust

from bench.app import measured_app
from streams.contact import decode_contact, encode_contact
from streams.transport import Batched, create_table, each_batch

ID = os.environ["BENCH_ID"]
PARTITIONS = int(os.environ["BENCH_PARTITIONS"])

app = measured_app(ID, os.environ["BENCH_BOOTSTRAP"], os.environ["BENCH_DATA"], PARTITIONS)
contacts = create_table(app, "contacts", partitions=PARTITIONS, encode=encode_contact, decode=decode_contact)


async def agent(stream: faust.StreamT[bytes]) -> None:
    """Nothing comes."""

    async def work(records: object, partition: int) -> None:
        """Nothing to do."""

    await each_batch(stream, work)


app.agent(app.topic(f"{ID}.in", schema=Batched(), partitions=PARTITIONS))(agent)
