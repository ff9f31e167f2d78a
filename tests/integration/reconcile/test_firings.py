"""Firings on a real Postgres: one for each tick, no two runs at a time, whoever dies or sleeps."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from streams.reconcile.clock import Clock
from streams.reconcile.ledger import SCHEDULE, Firing
from streams.reconcile.run import Made, Runner
from streams.reconcile.schedule import Schedule
from tests.integration.reconcile.lab import Lab, Worker, until

COUNTS = {"reserved": 0, "moved": 0, "skipped": 0, "opened": 0, "resolved": 0}
EVERY_SECOND, EVERY_FIVE = "* * * * * *", "*/5 * * * * *"


def schedule(cron: str, *, catch_up_s: float = 3_600) -> Schedule:
    return Schedule.parse(SCHEDULE, cron, "America/Sao_Paulo", catch_up_s=catch_up_s, jitter_s=0)


def settled(bench: Lab, ago: timedelta) -> None:
    """The schedule was last looked at so long ago."""
    bench.connection.execute(
        "INSERT INTO connect.schedules (name, settled) VALUES (%s, date_trunc('second', now()) - %s)"
        " ON CONFLICT (name) DO UPDATE SET settled = excluded.settled",
        [SCHEDULE, ago],
    )


class Body:
    """In the place of a run: takes as long as it is told, and counts how many go on at once."""

    def __init__(self, worker: Worker, seconds: float) -> None:
        self._ledger = worker.ledger
        self._seconds = seconds
        self.going = self.most = 0

    async def make(self, firing: Firing) -> Made:
        self.going += 1
        self.most = max(self.most, self.going)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.going -= 1
            await self._ledger.end(firing, "done", COUNTS, "{}")
        return Made()


def clock(worker: Worker, cron: str, body: Body | Runner | None = None) -> Clock:
    return Clock(schedule(cron), worker.ledger, body or worker.runner())  # type: ignore[arg-type]  # makes runs all the same


async def test_of_many_that_take_a_tick_at_once_one_fires(bench: Lab) -> None:
    settled(bench, timedelta(minutes=1))
    async with bench.worker() as worker:
        clocks = [clock(worker, "* * * * *", Body(worker, 0.5)) for _ in range(8)]
        await asyncio.gather(*(one.step() for one in clocks))
        await asyncio.gather(*(one.step() for one in clocks))
        assert len(bench.history()) == 1
        await asyncio.sleep(0.6)


async def test_br_61_fourteen_days_of_downtime_are_one_late_run(bench: Lab) -> None:
    settled(bench, timedelta(days=14))
    async with bench.worker() as worker:
        one = clock(worker, "*/5 * * * *")
        await one.step()
        await until(lambda: [row[:2] for row in bench.history()] == [("late", "done")])
        await one.step()
    assert len(bench.history()) == 1
    missed = bench.value("SELECT missed FROM connect.schedules")
    assert missed in (14 * 24 * 12 - 1, 14 * 24 * 12), "all others are counted"


async def test_br_23_a_body_of_three_ticks_skips_two_and_a_worker_that_was_away_makes_up_for_one(
    bench: Lab,
) -> None:
    async with bench.worker() as worker:
        body = Body(worker, 2.6)
        running = asyncio.create_task(clock(worker, EVERY_SECOND, body).run())
        counters = "SELECT fired, skipped, missed FROM connect.schedules"
        await until(lambda: bench.rows(counters) == [(1, 2, 0)])
        running.cancel()
        await asyncio.wait({running})
        assert body.most == 1
        (tick,) = bench.rows("SELECT settled FROM connect.schedules")
        await asyncio.sleep(3.2)
        body = Body(worker, 0.01)
        again = clock(worker, EVERY_SECOND, body)
        await again.step()
        assert bench.value("SELECT kind FROM connect.firings ORDER BY began_at DESC LIMIT 1") == "late"
        passed = bench.value("SELECT extract(epoch FROM settled - %s)::int FROM connect.schedules", [tick[0]])
        fired, skipped, missed = bench.rows(counters)[0]
        assert isinstance(passed, int) and passed >= 3
        assert isinstance(skipped, int) and isinstance(missed, int)
        assert (fired, skipped - 2 + missed) == (2, passed - 1), "one run for all of them"
        await asyncio.sleep(0.1)


async def test_br_55_a_run_of_ten_leases_that_beats_is_not_taken_over(bench: Lab) -> None:
    async with bench.worker(lease_s=0.4) as worker, bench.worker(lease_s=0.4) as other:
        firing = await worker.take()
        assert firing is not None
        for _ in range(40):
            assert await worker.ledger.beat(firing, COUNTS)
            assert await other.take() is None
            await asyncio.sleep(0.1)
        assert await worker.ledger.end(firing, "done", COUNTS, "{}")
        assert await other.take() is not None


async def test_br_55_a_run_that_beats_no_more_is_taken_over_once_and_its_late_words_are_refused(
    bench: Lab,
) -> None:
    async with bench.worker(lease_s=0.4) as dead, bench.worker() as one, bench.worker() as two:
        firing = await dead.take()
        assert firing is not None
        taken: list[Firing] = []

        async def is_taken() -> bool:
            taken.extend(found for found in await asyncio.gather(one.take(), two.take()) if found is not None)
            return bool(taken)

        await until(is_taken)
        assert len(taken) == 1
        assert not await dead.ledger.beat(firing, COUNTS)
        assert not await dead.ledger.end(firing, "done", {**COUNTS, "moved": 99}, "{}")
    states = bench.rows("SELECT state, moved FROM connect.firings ORDER BY began_at")
    assert states == [("lost", 0), ("running", 0)]


async def test_a_run_that_is_lost_stops_and_leaves_its_batch_to_others(bench: Lab) -> None:
    """Its process slept for longer than the lease; when it wakes up, its next beat is refused."""
    bench.instances(10)
    async with bench.worker(lease_s=1.2) as sleeper:
        firing = await sleeper.take()
        assert firing is not None

        class Slow(Runner):
            async def _work(self, firing: Firing, made: Made) -> None:
                await asyncio.sleep(30)

        making = asyncio.create_task(Slow(sleeper.ledger, sleeper.store, sleeper.options).make(firing))
        await asyncio.sleep(0.1)
        async with bench.worker() as other:
            taken: list[Firing] = []

            async def is_taken() -> bool:
                """Each beat of the sleeper takes the lease anew until somebody else has it."""
                bench.connection.execute("UPDATE connect.schedules SET run_until = now() - interval '1 s'")
                taken.extend(found for found in (await other.take(),) if found is not None)
                return bool(taken)

            await until(is_taken)
            end, counts = await other.run(taken[0])
            assert (end, counts["moved"]) == ("done", 10)
        made = await asyncio.wait_for(making, 5)
        assert made.end == "lost"
    assert [row[1] for row in bench.history()] == ["lost", "done"]


CLOCK = """
import asyncio, sys
from settings import Settings
from streams.reconcile.clock import Clock
from streams.reconcile.workshop import schedule_of, workshop

async def main():
    settings = Settings(reconcile_cron=sys.argv[2], reconcile_jitter_s=0, reconcile_lease_s=1.5)
    async with workshop(sys.argv[1], settings) as (ledger, _, runner):
        print("looks", flush=True)
        await Clock(schedule_of(settings), ledger, runner).run()

asyncio.run(main())
"""


class Herd:
    """Processes that look at one schedule."""

    def __init__(self, bench: Lab, cron: str) -> None:
        self._command = [sys.executable, "-c", CLOCK, bench.url, cron]
        self.processes: list[subprocess.Popen[str]] = []

    def spawn(self) -> None:
        process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
        )
        self.processes.append(process)

    def ready(self) -> None:
        for process in self.processes:
            assert process.stdout is not None and process.stdout.readline() == "looks\n"

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()
        self.processes.remove(process)


@pytest.mark.alone
async def test_four_workers_under_churn_give_one_firing_for_each_tick(bench: Lab) -> None:
    """Every second a tick; one of four processes on the same host is killed and replaced again and again."""
    dice, herd = random.Random(7), Herd(bench, EVERY_SECOND)
    settled(bench, timedelta(0))
    begun = bench.value("SELECT settled FROM connect.schedules")
    try:
        for _ in range(4):
            herd.spawn()
        await asyncio.to_thread(herd.ready)
        fired = "SELECT fired + skipped + missed FROM connect.schedules"
        for _ in range(8):
            await asyncio.sleep(dice.uniform(0.5, 1.5))
            herd.kill(dice.choice(herd.processes))
            herd.spawn()
        await until(lambda: int(str(bench.value(fired))) >= 15, 40)
    finally:
        for process in list(herd.processes):
            herd.kill(process)
    ticks = bench.rows("SELECT tick FROM connect.firings WHERE tick IS NOT NULL")
    assert len(ticks) == len(set(ticks)) >= 5
    told = bench.value(
        "SELECT fired + skipped + missed = extract(epoch FROM settled - %s) FROM connect.schedules", [begun]
    )
    assert told is True, "every tick was fired, skipped or missed, and none twice"
    overlaps = """
        SELECT count(*) FROM connect.firings a JOIN connect.firings b ON a.began_at < b.began_at
        WHERE b.began_at < coalesce(a.ended_at, 'infinity')
    """
    assert bench.value(overlaps) == 0
    assert bench.value("SELECT count(DISTINCT owner) FROM connect.firings") != 1, "several had a part in it"


async def test_br_59_after_a_kill_9_in_the_middle_of_a_run_the_next_one_comes_when_its_lease_is_over(
    bench: Lab,
) -> None:
    async with bench.worker(lease_s=1.5) as killed:
        assert await killed.take("tick") is not None
    # its process is gone: nobody beats
    settled(bench, timedelta(seconds=2))
    async with bench.worker() as worker:
        running = asyncio.create_task(clock(worker, EVERY_SECOND).run())
        await until(lambda: "lost" in (ends := [row[1] for row in bench.history()]) and "done" in ends)
        running.cancel()
        await asyncio.wait({running})
    gap = bench.value(
        "SELECT b.began_at - a.began_at > '1.5 s' FROM connect.firings a, connect.firings b"
        " WHERE a.state = 'lost' AND b.state = 'done' ORDER BY b.began_at LIMIT 1"
    )
    assert gap is True


# -- asked for


async def test_many_requests_are_one_run_and_one_told_twice_is_one(bench: Lab) -> None:
    async with bench.worker() as worker:
        requests = [uuid4() for _ in range(5)]
        for request in [*requests, *requests]:
            await worker.ledger.ask(request)
        one = clock(worker, "0 0 1 1 *")
        await one.step()
        await until(lambda: [row[:2] for row in bench.history()] == [("asked", "done")])
        served = [await worker.ledger.history(1, request) for request in requests]
        assert len({past.id for (past,) in served}) == 1
        await worker.ledger.ask(requests[0])
        await one.step()
        await asyncio.sleep(0.2)
    assert len(bench.history()) == 1, "a record that Kafka brings once more asks for nothing new"


async def test_what_is_asked_for_during_a_run_gets_the_next_one(bench: Lab) -> None:
    async with bench.worker() as worker:
        one = clock(worker, "0 0 1 1 *", Body(worker, 0.5))
        running = asyncio.create_task(one.run())
        await one.ask(uuid4())
        await until(lambda: len(bench.history()) == 1)
        late = uuid4()
        await one.ask(late)
        await until(lambda: [row[1] for row in bench.history()] == ["done", "done"])
        (past,) = await worker.ledger.history(1, late)
        assert past.kind == "asked"
        running.cancel()
        await asyncio.wait({running})


async def test_a_schedule_that_was_set_back_fires_no_tick_twice(bench: Lab) -> None:
    settled(bench, timedelta(seconds=70))
    async with bench.worker() as worker:
        one = clock(worker, "* * * * *")
        await one.step()
        await until(lambda: [row[1] for row in bench.history()] == ["done"])
        settled(bench, timedelta(seconds=70))
        for _ in range(3):
            await one.step()
            await asyncio.sleep(0.1)
    ticks = bench.rows("SELECT tick FROM connect.firings")
    assert len(ticks) == len(set(ticks))
    # a minute that began while the run went on is skipped: settled, but not fired
    settled_at = bench.value("SELECT settled FROM connect.schedules")
    assert isinstance(settled_at, datetime) and settled_at >= max(tick for (tick,) in ticks)


async def test_a_clock_without_a_database_waits_and_says_so(
    bench: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.reconcile.clock.FIRST_WAIT_S", 0.05)
    said: list[str | None] = []
    async with bench.worker() as worker:
        one = Clock(schedule(EVERY_FIVE), worker.ledger, worker.runner(), said.append)
        bench.connection.execute("ALTER TABLE connect.schedules RENAME TO hidden")
        running = asyncio.create_task(one.run())
        await until(lambda: len(said) >= 2)
        bench.connection.execute("ALTER TABLE connect.hidden RENAME TO schedules")
        await until(lambda: said[-1] is None)
        running.cancel()
        await asyncio.wait({running})
    assert said[0] == "the database is not prepared: run `rajada migrate`"
