"""Facts about the reference's events, rows and retries, from the log through the stages to Postgres' rows.

The stages run in skipped time, with the real decisions and the real sink; the log is a list.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg.rows import dict_row

from db.pool import AsyncPool, async_pool
from db.sweep_claims import Claims
from db.table_rows import StoredRow
from settings import Settings
from sinks.writer import Writer
from streams.decide import Stop
from streams.events import Unreadable, read_event
from streams.sweeping import conditions
from tests.e2e.stand_ins.drain import CLAIM
from tests.integration.clinic_state import State
from tests.integration.crm_tables import Connection, crm_database, replace_rows
from tests.integration.stages import Life, tell
from tests.unit.asking import IN_THE_WAY
from tests.unit.builders import row_bytes, uid
from tests.unit.living import pass_time, publish
from tests.unit.worlds import Worker, World

on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"outcomes_{uuid.uuid4().hex[:10]}") as url:
        yield url


@pytest.fixture(scope="module")
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        connection.execute("UPDATE rajada.meta SET installed_at = now() - interval '1 day'")
        yield connection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(crm: str) -> AsyncIterator[AsyncPool]:
    async with async_pool(crm, name="outcomes", max_size=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def writer(crm: str) -> Iterator[Writer]:
    with Writer(crm) as writer:
        yield writer


def row_of(rows: Connection, table: str, name: str) -> dict[str, Any]:
    """A row by its name."""
    with rows.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(f"SELECT * FROM {table} WHERE id = %s".encode(), [uid(name)]).fetchone()
    assert found is not None
    return found


def count(rows: Connection, table: str) -> int:
    """How many rows a table has."""
    (found,) = rows.execute(f"SELECT count(*)::int FROM {table}".encode()).fetchone() or (0,)
    assert isinstance(found, int)
    return found


def state_of_now() -> tuple[State, World]:
    """A clinic in which all is well, and an empty log at the same moment."""
    world = World(now_ms=time.time_ns() // 1_000_000)
    return State(world.now_ms), world


# -- how events end


STOPS = [name for name in IN_THE_WAY if name not in ("media_pending", "contact_missing")]
ENDED = {
    "status": "done",
    "attempts": 1,
    "job_id": None,
    "last_error": None,
    "next_attempt_at": None,
    "consumed_by": ["agent-engine"],
}
"""What a stop leaves in the event's row, beside its reason."""


@on_one_loop
async def test_b002_b003_b004_a_stop_is_done_at_the_first_attempt(rows: Connection, writer: Writer) -> None:
    state, world = state_of_now()
    state.drop("event_log")
    reasons = {uid(name): name for name in STOPS}
    world.decide = lambda question: Stop(reasons[question.events[0].event_id])
    for name in STOPS:
        state.event(name)
        publish(world, name, contact=name)
    for name, payload in (("lacks", "{}"), ("array", "[]")):
        state.event(name)
        publish(world, name, payload=payload)
        reasons[uid(name)] = "invalid_payload"
    replace_rows(rows, state.tables())
    await pass_time(world, Worker(world), 20_000)
    tell(writer, world.outcomes())
    for event_id, reason in reasons.items():
        name = next(one for one in (*STOPS, "lacks", "array") if uid(one) == event_id)
        row = row_of(rows, "event_log", name)
        assert {key: row[key] for key in (*ENDED, "outcome")} == {**ENDED, "outcome": reason}
    assert count(rows, "job_queue") == 0
    assert not claimed_by_a_drain(rows)


@on_one_loop
async def test_b049_of_a_backlog_the_newest_is_answered_once(
    rows: Connection, pool: AsyncPool, writer: Writer
) -> None:
    """Far apart, the older ones are superseded, as in the reference; in one burst all belong to the job."""
    state, world = state_of_now()
    names = [f"e{n}" for n in range(1, 6)]
    for n, name in enumerate(names):
        state.event(name, age_s=300 - 60 * n)
        publish(world, name, age_ms=300_000 - 60_000 * n)
    replace_rows(rows, state.tables())
    await pass_time(world, Life(world, pool), 1_000)
    (job,) = world.jobs()
    assert [one.event_id for one in job.events] == [uid("e5")]
    tell(writer, world.outcomes())
    told = [row_of(rows, "event_log", name)["outcome"] for name in names]
    assert told == ["superseded_by_newer_inbound"] * 4 + ["job"]

    state, world = state_of_now()
    for n, name in enumerate(names):
        state.event(name, age_s=300 - n)
        publish(world, name, age_ms=300_000 - 1_000 * n)
    replace_rows(rows, state.tables())
    await pass_time(world, Life(world, pool), 1_000)
    (job,) = world.jobs()
    assert [one.event_id for one in job.events] == [uid(name) for name in names]
    assert uid("message of e5") in job.payload
    tell(writer, world.outcomes())
    rows_told = [row_of(rows, "event_log", name) for name in names]
    assert {(row["outcome"], str(row["job_id"])) for row in rows_told} == {("job", job.id)}


@on_one_loop
async def test_b084_b085_media_is_looked_at_again_after_4_s_and_then_there_is_a_job(
    rows: Connection, pool: AsyncPool
) -> None:
    state, world = state_of_now()
    replace_rows(rows, state.media(age_s=0).tables())
    publish(world, "e1")
    worker = Life(world, pool)
    await pass_time(world, worker, 8_000)
    (contact,) = worker.memory.values()
    (window,) = contact.windows
    assert (window.state, window.look_at_ms) == ("media", world.now_ms + 4_000)
    rows.execute("UPDATE messages SET media_derived_status = 'ready'")
    world.now_ms += 3_999
    assert not await worker.flusher.step(), "not before its time"
    world.now_ms += 1
    assert await worker.flusher.step()
    (job,) = world.jobs()
    (outcome,) = world.outcomes()
    assert outcome.job_id == job.id and outcome.events[0].attempts == 1, "looking again spends nothing"


@on_one_loop
async def test_b095_beside_a_held_job_the_open_window_takes_the_message(
    rows: Connection, pool: AsyncPool
) -> None:
    state, world = state_of_now()
    held = {"run_after": float("inf"), "payload": {"held_run_after": "x"}}
    replace_rows(rows, state.event("e2", age_s=5).job("j", **held).tables())
    publish(world, "e1")
    world.now_ms += 5_000
    publish(world, "e2")
    await pass_time(world, Life(world, pool), 3_000)
    (job,) = world.jobs()
    assert [one.event_id for one in job.events] == [uid("e1"), uid("e2")]


# -- jobs


@on_one_loop
async def test_b109_the_row_of_a_job(rows: Connection, pool: AsyncPool, writer: Writer) -> None:
    state, world = state_of_now()
    replace_rows(rows, state.tables())
    publish(world, "e1")
    await pass_time(world, Life(world, pool), 8_000)
    tell(writer, world.outcomes())
    ((job_id,),) = rows.execute("SELECT id FROM job_queue").fetchall()
    with rows.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT * FROM job_queue").fetchone()
    assert row is not None
    made = {name: row[name] for name in ("kind", "priority", "max_attempts", "attempts", "status")}
    assert made == {
        "kind": "inbound_turn", "priority": 100, "max_attempts": 5, "attempts": 0, "status": "pending",
    }  # fmt: skip
    assert str(row["source_event_id"]) == uid("e1") and str(row["contact_id"]) == uid("ana")
    assert row["payload"] == {
        "conversation_id": uid("c1"),
        "contact_id": uid("ana"),
        "channel_session_id": uid("session"),
        "inbound_message_id": uid("message of e1"),
        "crm_event_id": uid("e1"),
        "event_ids": [uid("e1")],
    }
    assert row_of(rows, "event_log", "e1")["job_id"] == job_id


@on_one_loop
async def test_b110_b112_the_row_of_an_event_whose_job_is_there_already_ends(
    rows: Connection, pool: AsyncPool, writer: Writer
) -> None:
    """An older drain died between its job and its event: the event is done and the job stays as it is."""
    state, world = state_of_now()
    left = {"status": "processing", "consumed_by": ["agent-engine"], "attempts": 1}
    state.put("event_log", "e1", **left).job("j", source_event_id="e1")
    replace_rows(rows, state.tables())
    job = row_of(rows, "job_queue", "j")
    publish(world, "e1", attempts=1)
    await pass_time(world, Life(world, pool), 8_000)
    tell(writer, world.outcomes())
    row = row_of(rows, "event_log", "e1")
    assert (row["status"], row["outcome"], str(row["job_id"])) == ("done", "job", uid("j"))
    assert row_of(rows, "job_queue", "j") == job and count(rows, "job_queue") == 1
    assert not world.jobs()


@on_one_loop
async def test_b111_another_clinics_job_of_that_event_is_no_conflict(
    rows: Connection, pool: AsyncPool, writer: Writer
) -> None:
    state, world = state_of_now()
    state.put("organizations", "other clinic", status="active")
    replace_rows(rows, state.job("j", source_event_id="e1", organization_id="other clinic").tables())
    publish(world, "e1")
    await pass_time(world, Life(world, pool), 8_000)
    tell(writer, world.outcomes())
    (job,) = world.jobs()
    assert str(row_of(rows, "event_log", "e1")["job_id"]) == job.id
    assert count(rows, "job_queue") == 2


@on_one_loop
async def test_b113_however_often_an_event_comes_it_has_one_job(
    rows: Connection, pool: AsyncPool, writer: Writer
) -> None:
    state, world = state_of_now()
    replace_rows(rows, state.tables())
    for _ in range(3):
        publish(world, "e1")
    await pass_time(world, Life(world, pool), 9_000)
    publish(world, "e1")
    world.committed = 0  # and once more from the start, by a worker that recovers
    await pass_time(world, Life(world, pool), 9_000)
    assert len(world.jobs()) == 1
    tell(writer, world.outcomes())
    first = row_of(rows, "event_log", "e1")

    forgetful = World(now_ms=world.now_ms, log=world.log)  # its state is lost: Postgres knows
    await pass_time(forgetful, Life(forgetful, pool), 9_000)
    assert not forgetful.jobs()
    assert {outcome.outcome for outcome in forgetful.outcomes()} == {"deduplicated"}
    tell(writer, forgetful.outcomes())
    assert row_of(rows, "event_log", "e1") == first and count(rows, "job_queue") == 1


@on_one_loop
async def test_b114_nobody_claims_what_was_consumed(
    rows: Connection, pool: AsyncPool, writer: Writer
) -> None:
    state, world = state_of_now()
    replace_rows(rows, state.event("e1", age_s=600).tables())
    assert len(claimed_by_a_drain(rows)) == 1, "it is there to be claimed"
    replace_rows(rows, state.tables())
    publish(world, "e1")
    await pass_time(world, Life(world, pool), 8_000)
    tell(writer, world.outcomes())
    assert not claimed_by_a_drain(rows) and not swept(rows)


def claimed_by_a_drain(rows: Connection) -> list[tuple[object, ...]]:
    """What a polling drain of another name would claim."""
    return rows.execute(CLAIM, {"name": "another", "batch": 1_000}).fetchall()


# -- failures


@on_one_loop
async def test_b115_b116_b117_four_retries_30_s_apart_and_then_it_is_dead(
    rows: Connection, pool: AsyncPool, writer: Writer
) -> None:
    """A dead row carries no next attempt here: nobody would claim it, and people read it as a promise."""
    state, world = state_of_now()
    replace_rows(rows, state.drop("contacts").tables())
    publish(world, "e1")
    worker = Life(world, pool)
    await pass_time(world, worker, 8_000)
    for attempt in range(1, 5):
        assert len(world.outcomes()) == attempt
        tell(writer, world.outcomes()[-1:])
        row = row_of(rows, "event_log", "e1")
        assert (row["status"], row["attempts"]) == ("pending", attempt)
        assert round(row["next_attempt_at"].timestamp() * 1000) == world.now_ms + 30_000
        assert "contact" in row["last_error"] and len(row["last_error"]) <= 300
        world.now_ms += 29_999
        assert not await worker.flusher.step()
        world.now_ms += 1
        assert await worker.flusher.step()
    tell(writer, world.outcomes()[-1:])
    row = row_of(rows, "event_log", "e1")
    assert (row["status"], row["attempts"], row["outcome"]) == ("dead", 5, "contact_missing")
    assert row["next_attempt_at"] is None
    assert not claimed_by_a_drain(rows) and not world.jobs()


# -- what is claimed, reaped and left: of ours only the sweep reads the table


def swept(rows: Connection, *, page: int = 10, pages: int = 1) -> list[StoredRow]:
    """The pages that a sweep would publish again now."""
    rows.execute("DELETE FROM rajada.swept")
    found: list[StoredRow] = []
    with Claims(rows.info.dsn) as claims:
        assert claims.begin(conditions(Settings()), (300, 21_600), page, by_hand=True)
        for _ in range(pages):
            found += claims.next_page()
        claims.end(rest_s=0, kept_days=30)
    return found


def old(state: State, name: str, age_s: float = 600.0, **columns: object) -> None:
    """An event that was written ten minutes ago."""
    state.event(name, age_s=age_s)
    state.put("event_log", name, **columns)


def names_of(found: Sequence[StoredRow], *names: str) -> list[str]:
    """Rows by their events' names."""
    known = {uid(name): name for name in names}
    return [known[str(row.id)] for row in found]


def test_b009_events_of_other_types_are_never_touched(rows: Connection) -> None:
    state, _ = state_of_now()
    old(state, "e1", event_type="message.created")
    replace_rows(rows, state.tables())
    assert not swept(rows) and not claimed_by_a_drain(rows)
    found = read_event(row_bytes("e1", event_type="message.created"), [], 1, 1, 0)
    assert isinstance(found, Unreadable) and found.reason == "wrong_event_type"


def test_b128_oldest_first_a_page_at_a_time_past_locked_rows(rows: Connection) -> None:
    state, _ = state_of_now()
    ages = {"e1": 700, "third": 800, "locked": 850, "second": 900, "first": 1_000}
    for name, age_s in ages.items():
        old(state, name, age_s)
    replace_rows(rows, state.tables())
    with psycopg.connect(rows.info.dsn) as other:
        other.execute("SELECT FROM event_log WHERE id = %s FOR UPDATE", [uid("locked")])
        assert names_of(swept(rows, page=3), *ages) == ["first", "second", "third"]
        assert names_of(swept(rows, page=3, pages=2), *ages) == ["first", "second", "third", "e1"]
    # taking spends nothing and names nobody: that is written with what came of the event
    row = row_of(rows, "event_log", "e1")
    assert (row["attempts"], row["consumed_by"]) == (0, [])


@on_one_loop
async def test_b128_attempts_rise_and_the_consumer_is_named_once(
    rows: Connection, pool: AsyncPool, writer: Writer
) -> None:
    state, world = state_of_now()
    contact = state.tables()["contacts"]
    replace_rows(rows, state.drop("contacts").tables())
    publish(world, "e1")
    worker = Life(world, pool)
    await pass_time(world, worker, 8_000)
    replace_rows(rows, {**state.tables(), "contacts": contact})
    await pass_time(world, worker, 30_000)
    for outcome in world.outcomes():
        tell(writer, [outcome])
    row = row_of(rows, "event_log", "e1")
    assert (row["status"], row["attempts"], row["consumed_by"]) == ("done", 2, ["agent-engine"])


@pytest.mark.parametrize("status", ["done", "dead"])
def test_b130_what_has_ended_is_ignored(rows: Connection, status: str) -> None:
    state, _ = state_of_now()
    old(state, "e1", status=status)
    replace_rows(rows, state.tables())
    assert not swept(rows) and not claimed_by_a_drain(rows)


@pytest.mark.parametrize(
    ("consumer", "touched_s", "taken"),
    [("agent-engine", 301, True), ("agent-engine", 240, False), ("another", 6_000, False)],
    ids=["b131", "b132", "b133"],
)
def test_reaped(rows: Connection, consumer: str, touched_s: int, taken: bool) -> None:
    """What an older system left `processing` under our name comes again, with the attempts it had spent."""
    state, _ = state_of_now()
    old(state, "e1", 6_000, status="processing", consumed_by=[consumer], updated_at=-touched_s, attempts=2)
    replace_rows(rows, state.tables())
    found = swept(rows)
    assert [row.id for row in found] == ([uuid.UUID(uid("e1"))] if taken else [])
    for row in found:
        again = read_event(row.record.value, [], 1, 1, 0)
        assert getattr(again, "attempts", None) == 2
