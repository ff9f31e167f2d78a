"""Which sessions work, asked on a real Postgres."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio
import structlog

from db.pool import AsyncPool, async_pool
from streams.sessions import ANSWER_WITHIN_S, CACHED_S, REST_S, Sessions
from tests.integration.crm_tables import Connection, crm_database, replace_rows
from tests.unit.builders import uid

WELL, ILL, GONE = uid("well"), uid("ill"), uid("gone")


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"sessions_{uuid.uuid4().hex[:10]}") as url:
        yield url


@pytest.fixture
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        say(connection, {WELL: "WORKING", ILL: "FAILED"})
        yield connection


@pytest_asyncio.fixture
async def pool(crm: str) -> AsyncIterator[AsyncPool]:
    async with async_pool(crm, name="sessions", max_size=2) as pool:
        yield pool


def say(rows: Connection, statuses: dict[str, str | None]) -> None:
    """Make the sessions these."""
    replace_rows(
        rows,
        {
            "channel_sessions": [
                {"id": session, "organization_id": uid("clinic"), "status": status}
                for session, status in statuses.items()
            ]
        },
    )


async def test_a_session_that_is_not_working_is_told_and_no_other(pool: AsyncPool, rows: Connection) -> None:
    assert await Sessions(pool).not_working({WELL, ILL}) == {ILL}


@pytest.mark.parametrize("status", ["STARTING", "SCAN_QR_CODE", "STOPPED", "working", "WORKING ", ""])
async def test_only_the_exact_word_is_working(pool: AsyncPool, rows: Connection, status: str) -> None:
    say(rows, {ILL: status})
    assert await Sessions(pool).not_working([ILL]) == {ILL}


async def test_a_session_that_is_well_again_is_seen_within_5_s(pool: AsyncPool, rows: Connection) -> None:
    clock = Clock()
    sessions = Sessions(pool, monotonic=clock)
    assert await sessions.not_working([ILL]) == {ILL}
    say(rows, {WELL: "FAILED", ILL: "WORKING"})
    clock.now += CACHED_S - 0.1
    assert await sessions.not_working([ILL]) == {ILL}, "the cache holds 5 s"
    assert await sessions.not_working([ILL, WELL]) == {ILL, WELL}, "only what is missing is asked for"
    clock.now += 0.2
    assert await sessions.not_working([ILL]) == set()


async def test_a_session_that_is_not_there_and_what_is_no_uuid_count_as_working(
    pool: AsyncPool, rows: Connection
) -> None:
    strange = ["", "x", GONE, ILL.upper(), "{" + ILL + "}", "5511987654321"]
    assert await Sessions(pool).not_working(strange) == {ILL.upper()}, "told as it was asked for"
    assert await Sessions(pool).not_working([]) == set()


async def test_a_table_that_can_not_be_read_counts_as_working_with_one_warning_a_second(
    pool: AsyncPool, rows: Connection
) -> None:
    clock = Clock()
    sessions = Sessions(pool, monotonic=clock)
    rows.execute("ALTER TABLE channel_sessions RENAME TO away")
    try:
        with structlog.testing.capture_logs() as logs:
            assert await sessions.not_working([ILL]) == set()
            assert await sessions.not_working([ILL]) == set()
        assert [(line["event"], line["why"]) for line in logs] == [("sessions_unknown", "sqlstate_42P01")]
    finally:
        rows.execute("ALTER TABLE away RENAME TO channel_sessions")
    assert await sessions.not_working([ILL]) == set(), "nobody is asked for a second"
    clock.now += REST_S
    assert await sessions.not_working([ILL]) == {ILL}


async def test_a_late_answer_is_not_waited_for_but_kept(pool: AsyncPool, crm: str, rows: Connection) -> None:
    sessions = Sessions(pool)
    with psycopg.connect(crm) as holder:
        holder.execute("LOCK TABLE channel_sessions IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        assert await sessions.not_working([ILL]) == set()
        assert ANSWER_WITHIN_S - 0.1 < time.monotonic() - started < ANSWER_WITHIN_S + 2
        started = time.monotonic()
        assert await sessions.not_working([ILL]) == set()
        assert time.monotonic() - started < 0.5, "while one is under way no other is begun"
    assert sessions._late is not None
    await sessions._late
    assert await sessions.not_working([ILL]) == {ILL}


async def test_a_database_that_is_away_counts_as_working(crm: str, unused_tcp_port: int) -> None:
    url = psycopg.conninfo.make_conninfo(crm, port=unused_tcp_port)
    async with async_pool(url, name="sessions", min_size=0, timeout_s=0.1) as pool:
        with structlog.testing.capture_logs() as logs:
            assert await Sessions(pool).not_working([ILL]) == set()
    assert [line["why"] for line in logs if line["event"] == "sessions_unknown"] == ["PoolTimeout"]


async def test_the_cache_is_bounded(
    pool: AsyncPool, rows: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.sessions.MOST_CACHED", 10)
    sessions = Sessions(pool)
    many = [uid(f"s{n}") for n in range(50)]
    assert await sessions.not_working([*many, ILL]) == {ILL}
    assert len(sessions._cache) == 10
    assert await sessions.not_working([ILL, *many]) == {ILL}, "what is asked is told, kept or not"


async def test_many_sessions_are_asked_for_at_once(pool: AsyncPool, rows: Connection) -> None:
    say(rows, {uid(f"s{n}"): "WORKING" if n % 2 else "FAILED" for n in range(2_000)})
    told = await Sessions(pool).not_working([uid(f"s{n}") for n in range(2_000)])
    assert told == {uid(f"s{n}") for n in range(0, 2_000, 2)}


async def test_without_a_status_or_with_one_of_another_type(pool: AsyncPool, rows: Connection) -> None:
    rows.execute("ALTER TABLE channel_sessions ALTER COLUMN status DROP NOT NULL")
    say(rows, {ILL: None, WELL: "WORKING"})
    assert await Sessions(pool).not_working([ILL, WELL]) == {ILL}
    rows.execute("CREATE TYPE session_status AS ENUM ('WORKING', 'FAILED')")
    column = "ALTER TABLE channel_sessions ALTER COLUMN status"
    rows.execute(
        f"{column} DROP DEFAULT, ALTER COLUMN status TYPE session_status USING status::session_status"
    )
    try:
        assert await Sessions(pool).not_working([ILL, WELL]) == {ILL}
    finally:
        rows.execute(f"{column} TYPE text")
