"""Heads of ended jobs: put away after ten minutes, gone after a day, and known in between."""

from __future__ import annotations

from streams.heads import KEPT_MS, WHOLE_MS, State
from streams.job_forgetting import forget_slice
from tests.unit.job_stories import play, worker_in
from tests.unit.job_worlds import CHANGELOG, World, job_of, key_of, state_of


def test_a_record_that_comes_hours_after_its_job_starts_nothing() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        job, other = job_of(1), job_of(2, contact=2)
        for one in (job, other):
            world.give(one)
        await worker.turn()
        world.now_ms += WHOLE_MS + 1
        assert forget_slice(worker.book, 0, worker.book.keys(0), world.now_ms) == 0
        jobs = worker.memory[key_of()]
        assert not jobs.heads and jobs.past is not None
        world.give(job)
        await worker.turn()
        assert len(world.calls) == 2 and worker.executor.tally.dropped == 1
        assert state_of(worker, job) is State.DONE, "it is back, since it was asked for"

        again = await worker_in(world)
        assert again.memory[key_of()].heads[job.id].state is State.DONE, "who recovers knows it"

    play(story())


def test_the_next_jobs_of_a_contact_run_beside_what_was_put_away() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        for number in range(1, 6):
            world.give(job_of(number))
            await worker.turn()
            world.now_ms += WHOLE_MS + 1
            forget_slice(worker.book, 0, worker.book.keys(0), world.now_ms)
        assert [job_id for _, job_id, _ in world.calls] == [job_of(number).id for number in range(1, 6)]
        recovered = (await worker_in(world)).memory[key_of()]
        assert list(recovered.heads) == [job_of(number).id for number in range(1, 6)]
        assert [head.order for head in recovered.heads.values()] == [1, 2, 3, 4, 5]

    play(story())


def test_a_slice_in_which_nothing_is_over_writes_nothing_and_after_a_day_a_contact_leaves_a_tombstone() -> (
    None
):
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        world.give(job_of(1))
        await worker.turn()
        keys = worker.book.keys(0)

        def forgotten(later_ms: int) -> tuple[int, int]:
            before = len(world.durable[CHANGELOG])
            gone = forget_slice(worker.book, 0, keys, world.now_ms + later_ms)
            world.deliver()
            return gone, len(world.durable[CHANGELOG]) - before

        assert forgotten(WHOLE_MS) == (0, 0)
        assert forgotten(WHOLE_MS + 1) == (0, 1)
        assert forgotten(2 * WHOLE_MS) == (0, 0), "what was put away is not written again"
        assert forgotten(KEPT_MS) == (0, 0)
        assert forgotten(KEPT_MS + 1) == (1, 1)
        assert worker.book.keys(0) == []

    play(story())


def test_a_job_that_is_over_weighs_little_for_the_day_that_it_is_remembered() -> None:
    """Millions of jobs end in a day: what is kept of each is what a worker's memory grows by."""

    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        for number in range(1, 101):
            world.give(job_of(number))
            await worker.turn()
        world.now_ms += WHOLE_MS + 1
        forget_slice(worker.book, 0, worker.book.keys(0), world.now_ms)
        past = worker.memory[key_of()].past
        assert past is not None
        assert len(past.text) <= 100 * 130

    play(story())
