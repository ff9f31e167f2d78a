"""What `rajada reconcile` does: ask the running reconciler for a run, make one here, look at runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final
from uuid import UUID, uuid4

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from db.runs import connect
from kafka_access import kafka_client
from ops.asking import asking
from ops.errors import AlreadyRunning, NotYet, OpsError, Unreachable
from schemas.topic_names import RECONCILIATION
from settings import Settings
from streams.reconcile.ledger import SCHEDULE, Ledger, Past
from streams.reconcile.run import Runner
from streams.reconcile.store import Preview, Store
from streams.reconcile.ticking import Look
from streams.reconcile.triggers import encode_trigger
from streams.reconcile.workshop import workshop

DELIVERY_S: Final = 15.0
TAKEN_S: Final = 30.0
"""By then a reconciler that runs has begun, unless a run goes on."""
_POLL_S: Final = 0.2


class RunFailed(OpsError):
    """The run came to no good end; its error says why, and the next run tries again."""

    exit_code = 10


@dataclass(frozen=True, slots=True)
class Desk:
    """Where commands work: the database, opened."""

    ledger: Ledger
    store: Store
    runner: Runner

    async def once(self) -> Past:
        """A run here and now, without Kafka and without a reconciler that runs.

        Raises AlreadyRunning while another run goes on.
        """
        row = await self.ledger.look(alive=False)
        firing = await self.ledger.fire(None, Look(row.seen.now, fire="once"))
        if firing is None:
            (past,) = await self.ledger.history(1)
            raise AlreadyRunning(
                f"A run goes on since {past.took_s:.0f} s (by {past.owner}). Wait for it; if its process has "
                "died, its lease ends by itself: RAJADA_RECONCILE_LEASE_S."
            )
        await self.runner.make(firing)
        return next(past for past in await self.ledger.history(50) if past.id == str(firing.id))

    async def answered(self, request: UUID, wait_s: float) -> Past:
        """The run that serves a request, once it has ended. Raises NotYet."""
        begun = monotonic()
        while True:
            found = await self.ledger.history(1, request)
            if found and found[0].state != "running":
                return found[0]
            waited = monotonic() - begun
            if not found and waited > min(TAKEN_S, wait_s):
                raise NotYet(
                    "Nobody has taken the order: does the reconciler run (`rajada status`)? It stays in the "
                    "topic; `rajada reconcile --once` makes a run without it."
                )
            if waited > wait_s:
                raise NotYet("The run goes on; `rajada reconcile --history` will show how it ended.")
            await asyncio.sleep(_POLL_S)

    async def preview(self) -> Preview:
        """What a run would do now, by age alone."""
        return await self.store.preview()

    async def history(self, most: int) -> list[Past]:
        """The last runs, newest first."""
        return await self.ledger.history(most)


@asynccontextmanager
async def desk(url: str, settings: Settings) -> AsyncIterator[Desk]:
    """A desk as long as the block.

    Raises Unreachable or NotMigrated, inside the block too, and OpsError for what Postgres refuses.
    """
    with asking(url):
        connect(url, "reconcile").close()  # a database that is away is told at once
        async with workshop(url, settings) as (ledger, store, runner):
            yield Desk(ledger, store, runner)


def order(bootstrap: str, settings: Settings) -> UUID:
    """Ask for a run by a record of the trigger topic, durable when this returns. Raises Unreachable."""
    request = uuid4()
    topic = settings.topic(RECONCILIATION)
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            **kafka_client(bootstrap),
            "client.id": "rajada-ops",
            "acks": "all",
            "message.timeout.ms": int(DELIVERY_S * 1000),
            "log_level": 2,
        }
    )
    try:
        producer.produce(topic, encode_trigger(request), SCHEDULE.encode(), on_delivery=delivered)
        left = producer.flush(DELIVERY_S + 1)
    except KafkaException as error:
        failures.append(error.args[0])
        left = 0
    if failures or left:
        said = failures[0].str() if failures else "no answer"
        raise Unreachable(
            f"Kafka at {bootstrap} did not take the order ({said}). `rajada reconcile --once` makes a run "
            "without Kafka."
        )
    return request


def check(past: Past) -> None:
    """Raises RunFailed unless a run came to its end."""
    if past.state != "done":
        told = f": {past.error}" if past.error else ""
        raise RunFailed(
            f"The run is {past.state}{told}. What it wrote stands, and the next run goes on from there. The "
            "reconciler's log tells more."
        )
