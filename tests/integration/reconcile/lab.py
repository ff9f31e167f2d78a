"""A database with instances in it, and runs over them, for the tests here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg

from db.leases import new_holder
from db.pool import AsyncPool
from settings import Settings
from streams.reconcile.ledger import Firing, Ledger
from streams.reconcile.run import Options, Runner
from streams.reconcile.store import Store
from streams.reconcile.ticking import Look
from streams.reconcile.workshop import pool_of

Rows = list[tuple[object, ...]]

ORGANIZATION = UUID(int=0xA)
OTHER = UUID(int=0xB)
HOURS = timedelta(hours=2)


@dataclass
class Worker:
    """One process' means, all of its own: pool, owner, ledger, store."""

    pool: AsyncPool
    owner: str
    ledger: Ledger
    store: Store
    options: Options

    def runner(self, **options: object) -> Runner:
        return Runner(self.ledger, self.store, replace(self.options, **options))  # type: ignore[arg-type]  # a test's own options

    async def take(self, kind: str = "once") -> Firing | None:
        """The firing of a run by hand, if none goes on."""
        row = await self.ledger.look(alive=False)
        return await self.ledger.fire(None, Look(row.seen.now, fire=kind))  # type: ignore[arg-type]  # one of the kinds

    async def run(self, firing: Firing | None = None, **options: object) -> tuple[str, dict[str, int]]:
        """A whole run, of a firing if one was taken; how it ended, and its counts."""
        firing = firing or await self.take()
        assert firing is not None, "a run goes on"
        made = await self.runner(**options).make(firing)
        return made.end, made.report.counts()


class Lab:
    """The database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: psycopg.Connection[tuple[object, ...]] = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        self.connection.close()

    @asynccontextmanager
    async def worker(self, *, lease_s: float = 60.0, batch: int = 1_000) -> AsyncIterator[Worker]:
        """A worker as long as the block."""
        pool, owner = pool_of(self.url, Settings()), new_holder()
        await pool.open()
        try:
            options = Options(owner, batch, lease_s)
            yield Worker(pool, owner, Ledger(pool, owner, lease_s), Store(pool), options)
        finally:
            await pool.close()

    # -- what is there
    def instance(
        self, state: str = "provisioning", *, age: timedelta = HOURS, organization: UUID = ORGANIZATION
    ) -> str:
        """An instance that has been in its state for a while; its id."""
        id_ = uuid4()
        self.connection.execute(
            "INSERT INTO connect.whatsapp_instances (id, organization_id, state, state_since)"
            " VALUES (%s, %s, %s, clock_timestamp() - %s)",
            [id_, organization, state, age],
        )
        return str(id_)

    def instances(
        self, count: int, state: str = "provisioning", *, organization: UUID = ORGANIZATION
    ) -> None:
        """Many of them."""
        self.connection.execute(
            "INSERT INTO connect.whatsapp_instances (organization_id, state, state_since)"
            " SELECT %s, %s, clock_timestamp() - interval '2 hours' FROM generate_series(1, %s)",
            [organization, state, count],
        )

    # -- what has become of it
    def rows(self, statement: str, values: object = None) -> Rows:
        return self.connection.execute(statement, values).fetchall()  # type: ignore[arg-type]  # a test's own statement

    def value(self, statement: str, values: object = None) -> object:
        ((value,),) = self.rows(statement, values)
        return value

    def state(self, id_: str) -> object:
        return self.value("SELECT state FROM connect.whatsapp_instances WHERE id = %s", [id_])

    def states(self) -> dict[object, object]:
        """State → how many."""
        return dict(self.rows("SELECT state, count(*) FROM connect.whatsapp_instances GROUP BY state"))  # type: ignore[arg-type]  # pairs

    def open(self) -> list[tuple[object, object, object]]:
        """The open notifications: organization, kind, subject."""
        return self.rows(  # type: ignore[return-value]  # three columns
            "SELECT organization_id, kind, subject_id FROM connect.active_notifications"
            " ORDER BY kind, subject_id"
        )

    def hub(self) -> Rows:
        """Every byte of every notification."""
        return self.rows("SELECT n::text FROM connect.system_notifications n ORDER BY n.id")

    def rebuild(self, most: int | None = None) -> tuple[object, ...]:
        """Opened, resolved, more."""
        (row,) = self.rows("SELECT * FROM connect.rebuild_all_system_notifications(%s)", [most])
        return row

    def history(self) -> Rows:
        """Kind, state, tick of every firing, in their order."""
        return self.rows("SELECT kind, state, tick FROM connect.firings ORDER BY began_at")


async def until(condition: Callable[[], object | Awaitable[object]], seconds: float = 20.0) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.05)
