"""Orders to jobs, by operators and by the engine's absence: pause, cancel, hold, run now, requeue."""

from __future__ import annotations

from schemas.codec import encode_job
from streams.handlers.answers import Dead, Done, Hold, Retry
from streams.heads import State
from streams.job_endings import Rules
from tests.unit.job_stories import command, failing, play, worker_in
from tests.unit.job_worlds import START_MS, World, job_of, key_of


def test_a_held_job_for_want_of_an_engine_runs_when_there_is_one() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Hold("no_engine: AGENT_ENGINE_URL is not set"))
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        assert world.heads()[job.id].state is State.HELD
        await worker.executor.give_up(0)
        world.engine = lambda job, attempt: Done()
        second = await worker_in(
            world, rules=Rules(kinds=frozenset({"inbound_turn"}), releases=frozenset({"no_engine"}))
        )
        await second.turn()
        assert world.rows()[job.id].outcome == "done"
        assert [attempt for _, _, attempt in world.calls] == [1, 1]

    play(story())


def test_pause_stops_starts_and_resume_loses_nothing() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        world.order(command("pause", 1, None))
        await worker.turn()
        world.give(job_of(1))
        await worker.turn()
        assert world.calls == []
        world.die({})
        second = await worker_in(world)
        await second.turn()
        assert world.calls == [], "the pause is in the changelog"
        world.order(command("resume", 2, None))
        await second.turn()
        assert len(world.calls) == 1

    play(story())


def test_a_record_that_was_overtaken_by_run_now_starts_nothing_early() -> None:
    async def story() -> None:
        world = World(engine=failing)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.order(command("run_now", 1, job), key_of())
        await worker.turn()
        await worker.live(START_MS + 60_000)
        # the first retry's record comes after 10 s and must not start the third attempt, due after 20 s
        assert [at - START_MS for at, _, _ in world.calls] == [0, 0, 20_000, 60_000]

    play(story())


def test_a_cancelled_call_is_cut_short_and_the_job_failed() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 60_000)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.order(command("cancel", 1, job, reason="customer called"), key_of())
        await worker.turn(2)
        assert len(worker.calls) == 0
        row = world.rows()[job.id]
        assert (row.job_status, row.outcome) == ("failed", "cancelled:customer called")
        assert row.alert is None
        assert not worker.lanes.is_running(key_of())

    play(story())


def test_a_command_for_an_unknown_job_waits_for_it_a_day() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        job = job_of(1)
        world.order(command("cancel", 1, job), key_of())
        await worker.turn()
        world.give(job)
        await worker.turn()
        assert world.calls == []
        assert world.rows()[job.id].job_status == "failed"

    play(story())


def test_a_hold_of_a_running_job_takes_effect_when_it_fails() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Retry("http_500"))
        worker = await worker_in(world)
        job = job_of(1)
        world.engine = lambda job, attempt: 1_000
        world.give(job)
        await worker.turn()
        world.order(command("hold", 1, job, reason="look first"), key_of())
        await worker.live(START_MS + 2_000)
        assert world.rows()[job.id].outcome == "done", "an answer that is good wins"

    play(story())


def test_a_dead_job_is_requeued_under_its_own_id_with_fresh_attempts() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Dead("http_422"))
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        (letter,) = world.letters()
        world.engine = lambda job, attempt: Dead("http_422")
        again = command("requeue", 1, job, replay=START_MS, job=letter[1], replays=1)
        world.order(again, key_of())
        await worker.turn()
        row = world.rows()[job.id]
        assert row.job is not None and row.job.replay == START_MS
        second = world.letters()[1]
        assert dict(second[3] or ())["replays"] == b"1"
        assert second[1] == letter[1], "the bytes stay what they were"

    play(story())


def test_an_ended_job_is_told_again_as_it_ended_whatever_was_lost() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Done())
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        ended = world.heads()[job.id]
        before = len(world.outcomes(job.id))
        world.order(command("ask", 1, job, job=encode_job(job)), key_of())
        world.order(command("ask", 1, job, job=encode_job(job)), key_of())
        await worker.turn()
        (told,) = world.outcomes(job.id)[before:]
        assert (told.job_status, told.outcome) == ("done", "done") and told.job is not None
        assert told.job.payload == job.payload, "its head has forgotten that; its row has not"
        assert told.job.attempt == ended.attempt and told.job.seq == ended.seq + 1, "above what was written"
        assert len(world.calls) == 1 and world.heads()[job.id].state is State.DONE

    play(story())


def test_who_asks_about_a_job_in_its_lane_or_held_moves_nothing() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Hold("no_engine: AGENT_ENGINE_URL is not set"))
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.order(command("ask", 1, job, job=encode_job(job)), key_of())
        await worker.turn()
        assert world.rows()[job.id].job_status == "held" and world.heads()[job.id].state is State.HELD
        assert (world.outcomes(job.id)[-1].outcome or "").startswith("held:no_engine")

    play(story())


def test_a_job_that_nobody_knows_is_called_so_and_is_begun_or_ended_as_ordered() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Done())
        worker = await worker_in(world)
        lost, wrong = job_of(1), job_of(2)
        for number, job in enumerate((lost, wrong)):
            world.order(command("ask", number, job, job=encode_job(job)), key_of())
        world.order(command("ask", 9, lost, job=b"?"), key_of())
        await worker.turn()
        told = [one for one in world.outcomes() if one.stage == "control"]
        assert [(one.job_id, one.outcome) for one in told] == [
            (lost.id, "unknown"), (wrong.id, "unknown"), (lost.id, "refused:ask"),
        ]  # fmt: skip
        assert world.calls == [] and lost.id not in world.heads(), "to ask begins nothing"
        world.order(command("recover", 3, lost, job=encode_job(lost)), key_of())
        world.order(command("cancel", 4, wrong, reason="nobody knows it"), key_of())
        world.order(command("recover", 5, wrong, job=encode_job(wrong)), key_of())
        await worker.turn()
        await worker.turn()
        rows = world.rows()
        assert rows[lost.id].outcome == "done" and len(world.calls) == 1
        assert (rows[wrong.id].job_status, rows[wrong.id].outcome) == ("failed", "cancelled:nobody knows it")

    play(story())


def test_a_row_that_says_running_of_a_job_that_has_ended_is_set_right_by_whoever_misses_it() -> None:
    """The care of group links orders so, again and again, as long as the row says that."""

    async def story() -> None:
        world = World(engine=lambda job, attempt: Done())
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        before = len(world.outcomes(job.id))
        world.order(command("recover", 1, job, job=encode_job(job)), key_of())
        world.order(command("recover", 1, job, job=encode_job(job)), key_of())
        await worker.turn()
        (told,) = world.outcomes(job.id)[before:]
        assert (told.job_status, told.outcome) == ("done", "done")
        assert len(world.calls) == 1 and world.heads()[job.id].state is State.DONE

    play(story())
