"""Leases on stuck instances: fair, by the database's time, and worth nothing once they are another's."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from streams.reconcile.instances import Instance, Move
from streams.reconcile.ledger import Firing
from streams.reconcile.report import Report
from streams.reconcile.run import Repair
from tests.integration.reconcile.lab import OTHER, Lab, Worker, until

ARCHIVED, FAILED = Move("archived", "x"), Move("provisioning_failed", "x")


async def reserve(bench: Lab, batch: int = 100, lease_s: float = 60.0) -> list[Instance]:
    async with bench.worker() as worker:
        return await worker.store.reserve(batch, worker.owner, lease_s)


@pytest.mark.parametrize(
    ("state", "minutes", "is_stuck"),
    [
        ("provisioning", 14.9, False),
        ("provisioning", 15.1, True),
        ("deprovisioning", 29.9, False),
        ("deprovisioning", 30.1, True),
        ("connected", 100_000, False),
        ("provisioning_failed", 100_000, False),
        ("archived", 100_000, False),
        ("something_new", 100_000, False),
    ],
)
async def test_stuck_is_who_stays_in_its_state_for_longer_than_its_limit(
    bench: Lab, state: str, minutes: float, is_stuck: bool
) -> None:
    id_ = bench.instance(state, age=timedelta(minutes=minutes))
    assert [one.id for one in await reserve(bench)] == ([id_] if is_stuck else [])


async def test_limits_are_rows_and_a_state_without_one_is_never_stuck(bench: Lab) -> None:
    id_ = bench.instance("provisioning", age=timedelta(minutes=1))
    bench.connection.execute(
        "UPDATE connect.whatsapp_states SET stuck_after = interval '30 s' WHERE state = 'provisioning'"
    )
    assert [one.id for one in await reserve(bench)] == [id_]
    bench.connection.execute("UPDATE connect.whatsapp_states SET stuck_after = NULL")
    bench.connection.execute("UPDATE connect.whatsapp_instances SET locked_until = NULL")
    assert await reserve(bench) == []


async def test_a_lease_is_one_owners_until_it_ends(bench: Lab) -> None:
    bench.instances(3)
    first = await reserve(bench, lease_s=1.0)
    assert len(first) == 3 and await reserve(bench) == []
    await asyncio.sleep(1.1)
    second = await reserve(bench)
    assert {one.id for one in second} == {one.id for one in first}
    assert min(one.token for one in second) > max(one.token for one in first)


@pytest.mark.parametrize(
    ("batch", "owner", "lease"), [(0, "me", "1 s"), (1, "", "1 s"), (1, "me", "0 s"), (None, "me", "1 s")]
)
def test_a_lease_without_sense_is_refused(bench: Lab, batch: int | None, owner: str, lease: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        bench.rows(
            "SELECT * FROM connect.reserve_whatsapp_reconciliation_lease(%s::integer, %s, %s)",
            [batch, owner, lease],
        )


async def test_a_late_write_is_refused_by_its_token(bench: Lab) -> None:
    bench.instances(10)
    async with bench.worker() as dead, bench.worker() as alive:
        mine = await dead.store.reserve(100, dead.owner, 0.3)
        await asyncio.sleep(0.4)
        theirs = await alive.store.reserve(100, alive.owner, 60)
        assert len(theirs) == len(mine) == 10
        assert await dead.store.move([(one, FAILED) for one in mine], uuid4()) == set()
        moved = await alive.store.move([(one, FAILED) for one in theirs], uuid4())
        assert moved == {one.id for one in theirs}
        assert await dead.store.move([(one, ARCHIVED) for one in mine], uuid4()) == set()
    assert bench.states() == {"provisioning_failed": 10}
    assert bench.value("SELECT count(*) FROM connect.whatsapp_moves") == 10


async def test_a_write_that_is_sent_twice_hits_nothing_that_came_into_the_state_anew(bench: Lab) -> None:
    id_ = bench.instance()
    async with bench.worker() as worker:
        (one,) = await worker.store.reserve(1, worker.owner, 60)
        again = "UPDATE connect.whatsapp_instances SET state = 'connected' WHERE id = %s"
        bench.connection.execute(again, [id_])
        bench.connection.execute(again.replace("connected", "provisioning"), [id_])
        assert await worker.store.move([(one, FAILED)], uuid4()) == set()
    assert bench.state(id_) == "provisioning"
    row = bench.rows("SELECT locked_until, locked_by FROM connect.whatsapp_instances")
    assert row == [(None, None)], "whoever changes the state ends the lease"
    fresh = bench.value("SELECT clock_timestamp() - state_since < '10 s' FROM connect.whatsapp_instances")
    assert fresh is True


async def test_every_write_matches_the_organization(bench: Lab) -> None:
    bench.instance()
    async with bench.worker() as worker:
        (one,) = await worker.store.reserve(1, worker.owner, 60)
        stranger = Instance(one.id, str(OTHER), None, one.state, one.token)
        assert await worker.store.move([(stranger, FAILED)], uuid4()) == set()
        await worker.store.release([stranger])
        assert await worker.store.reserve(1, worker.owner, 60) == []


# -- tenants


async def test_one_tenants_hundred_thousand_do_not_delay_anothers_three(bench: Lab) -> None:
    """By the order of work: the three are in the very first batch, however old the flood is."""
    bench.instances(100_000)
    three = {bench.instance(age=timedelta(minutes=16), organization=OTHER) for _ in range(3)}
    first = await reserve(bench, 1_000)
    places = [place for place, one in enumerate(first) if one.id in three]
    assert len(places) == 3, "all three in the first thousand of 100,003"
    assert places[0] <= 1, "and the first of them in the first round"


async def test_shares_are_equal_and_what_nobody_needs_goes_to_the_others(bench: Lab) -> None:
    for number, count in enumerate([500, 40, 5, 1], start=1):
        bench.instances(count, organization=UUID(int=number))
    found = await reserve(bench, 146)
    assert Counter(UUID(one.organization_id).int for one in found) == {1: 100, 2: 40, 3: 5, 4: 1}
    order = [UUID(one.organization_id).int for one in found]
    assert sorted(order[:4]) == [1, 2, 3, 4], "the first round takes one of each"


async def test_with_more_tenants_than_a_batch_holds_each_has_its_turn(bench: Lab) -> None:
    for number in range(1, 26):
        bench.instances(4, organization=UUID(int=number))
    turns: list[int] = []
    for _ in range(5):
        turns += [UUID(one.organization_id).int for one in await reserve(bench, 10)]
    assert turns == [*range(1, 26), *range(1, 26)]


async def test_who_reserves_while_another_one_does_waits_for_nobody(bench: Lab) -> None:
    bench.instances(10)
    with psycopg.connect(bench.url) as frozen:  # a transaction that stays open
        held = frozen.execute(
            "SELECT * FROM connect.reserve_whatsapp_reconciliation_lease(4, 'frozen', '60 s')"
        ).fetchall()
        async with asyncio.timeout(5):
            found = await reserve(bench)
        assert len(found) == 6 and not {one.id for one in found} & {str(row[0]) for row in held}


# -- the issue's own case


async def test_two_workers_and_ten_thousand_stuck_instances_each_is_moved_once(bench: Lab) -> None:
    for number in range(1, 8):
        state = "provisioning" if number % 2 else "deprovisioning"
        bench.instances(1_429 if number < 7 else 1_426, state, organization=UUID(int=number))
    async with bench.worker(batch=200) as one, bench.worker(batch=300) as two:

        async def work(worker: Worker) -> Counter[str]:
            report = Report()
            await Repair(worker.store, worker.options).make(Firing(uuid4(), "once", None), report)
            assert not report.skipped
            return Counter(report.counts())

        done = await asyncio.gather(work(one), work(two))
    assert all(counts["moved"] > 0 for counts in done), "both had a part in it"
    assert sum(counts["moved"] for counts in done) == 10_000
    moves = "SELECT count(*), count(DISTINCT instance_id) FROM connect.whatsapp_moves"
    assert bench.rows(moves) == [(10_000, 10_000)]
    assert bench.states() == {"provisioning_failed": 3 * 1_429 + 1_426, "archived": 3 * 1_429}


HOLDER = """
import asyncio, sys, time
from db.leases import new_holder
from settings import Settings
from streams.reconcile.instances import Move
from streams.reconcile.workshop import pool_of
from streams.reconcile.store import Store
from uuid import uuid4

async def main():
    pool = pool_of(sys.argv[1], Settings())
    await pool.open()
    store = Store(pool)
    mine = await store.reserve(5_000, new_holder(), 3.0)
    print(len(mine), flush=True)
    sys.stdin.readline()
    print(len(await store.move([(one, Move("archived", "late")) for one in mine], uuid4())), flush=True)

asyncio.run(main())
"""


def holder(bench: Lab) -> subprocess.Popen[str]:
    """A process that has leased 5,000 instances, writes when it is told to, and prints how many it moved."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, bench.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None and process.stdout.readline() == "5000\n"
    return process


async def test_br_55_what_a_killed_worker_held_is_taken_after_its_lease_and_not_before(bench: Lab) -> None:
    bench.instances(10_000)
    process = holder(bench)
    taken = time.monotonic()
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    async with bench.worker(batch=1_000) as alive:
        end, counts = await alive.run()
        assert (end, counts["moved"]) == ("done", 5_000), "the others are moved at once"

        async def comes_free() -> bool:
            return bool(await alive.store.reserve(1, alive.owner, 0.001))

        await until(comes_free)
        assert time.monotonic() - taken > 2.5
        await asyncio.sleep(0.01)
        end, counts = await alive.run()
        assert (end, counts["moved"], counts["skipped"]) == ("done", 5_000, 0)
    assert bench.rows("SELECT count(*), count(DISTINCT instance_id) FROM connect.whatsapp_moves") == [
        (10_000, 10_000)
    ]


async def test_br_55_a_frozen_worker_that_wakes_up_late_moves_nothing(bench: Lab) -> None:
    bench.instances(5_000)
    process = holder(bench)
    process.send_signal(signal.SIGSTOP)
    async with bench.worker() as alive:

        async def all_are_moved() -> bool:
            return (await alive.run())[1]["moved"] > 0

        await until(all_are_moved)
    process.send_signal(signal.SIGCONT)
    told, _ = process.communicate("go\n", timeout=20)
    assert told == "0\n", "every late write was refused"
    assert bench.states() == {"provisioning_failed": 5_000}


async def test_clocks_of_the_processes_do_not_matter(bench: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose clock is a year off sees the same ages and the same leases."""
    a_year = 365 * 24 * 3600.0
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + a_year)
    young = bench.instance(age=timedelta(minutes=1))
    old = bench.instance()
    async with bench.worker() as skewed:
        assert [one.id for one in await skewed.store.reserve(10, skewed.owner, 60)] == [old]
        assert await skewed.store.reserve(10, skewed.owner, 60) == []
        row = await skewed.ledger.look()
        assert abs(row.seen.now.timestamp() - real()) < 30
    assert bench.state(young) == "provisioning"
