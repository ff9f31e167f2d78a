"""How long windows are, looked up on a real Postgres; named by the behaviours they prove."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio

from db.pool import AsyncPool, async_pool
from settings import Settings
from streams.lengths import CACHED_S, REST_S, Key, WindowLengths
from streams.windows import WindowRule
from tests.integration.crm_tables import Connection, Row, Tables, crm_database, replace_rows
from tests.unit.builders import uid

DEFAULT_MS = 7_000
SETTINGS = Settings(inbound_debounce_ms=DEFAULT_MS)
KEY: Key = (uid("clinic"), uid("c"), uid("s"))
CLINIC = {"organization_id": uid("clinic")}


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"lengths_{uuid.uuid4().hex[:10]}") as url:
        with psycopg.connect(url, autocommit=True) as connection:
            # of any type, as a CRM may have it
            connection.execute("ALTER TABLE ai_agent_versions ALTER COLUMN inbound_debounce_ms TYPE text")
        yield url


@pytest.fixture
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        connection.execute("DELETE FROM rajada.windows_settings")
        yield connection


@pytest_asyncio.fixture
async def pool(crm: str) -> AsyncIterator[AsyncPool]:
    async with async_pool(crm, name="lengths", max_size=2) as pool:
        yield pool


def agent(
    name: str, debounce: object, *, session: str | None = "s", status: str = "published", **changes: object
) -> Tables:
    """An agent with a version."""
    return {
        "ai_agents": [{**CLINIC, "id": uid(name), "published_version_id": uid(f"v{name}"), "priority": 0,
                       "created_at": 0, **changes}],
        "ai_agent_versions": [{**CLINIC, "id": uid(f"v{name}"), "agent_id": uid(name), "status": status,
                               "channel_session_id": uid(session) if session else None,
                               "inbound_debounce_ms": debounce}],
    }  # fmt: skip


def crm_of(*agents: Tables, owner: str | None = None) -> Tables:
    """A conversation and these agents."""
    conversation: Row = {**CLINIC, "id": uid("c"), "active_ai_agent_id": uid(owner) if owner else None}
    return {
        "conversations": [conversation],
        "ai_agents": [row for one in agents for row in one["ai_agents"]],
        "ai_agent_versions": [row for one in agents for row in one["ai_agent_versions"]],
    }


async def length(pool: AsyncPool, rows: Connection, tables: Tables) -> int:
    replace_rows(rows, tables)
    return (await WindowLengths(pool, SETTINGS).lookup([KEY]))[KEY].length_ms


@pytest.mark.parametrize(
    ("debounce", "expected"),
    [
        (None, DEFAULT_MS),  # b098
        (20_000, 20_000),  # b099
        (60_000, 60_000),
        (90_000, 60_000),
        (-5, 0),
        (0, 0),
        ("Infinity", 60_000),
        ("abc", DEFAULT_MS),  # b100: differs on purpose
        ("NaN", DEFAULT_MS),
        ("", DEFAULT_MS),
        ("9" * 400, 60_000),
    ],
)
async def test_b098_b099_b100_the_agents_value(
    pool: AsyncPool, rows: Connection, debounce: object, expected: int
) -> None:
    assert await length(pool, rows, crm_of(agent("a", debounce))) == expected
    assert await length(pool, rows, crm_of(agent("a", debounce), owner="a")) == expected


def test_b098_the_installations_value_is_clamped_too() -> None:
    assert Settings(inbound_debounce_ms=90_000).inbound_debounce_ms == 60_000


async def test_b101_the_owner_counts_wherever_it_is_published(pool: AsyncPool, rows: Connection) -> None:
    elsewhere = agent("owner", 3_000, session="another")
    assert await length(pool, rows, crm_of(elsewhere, agent("a", 20_000), owner="owner")) == 3_000


@pytest.mark.parametrize(
    "owner",
    [
        agent("owner", 3_000, archived_at=1),
        agent("owner", 3_000, status="superseded"),
        agent("owner", 3_000, published_version_id=None),
        {"ai_agents": [], "ai_agent_versions": []},
    ],
)
async def test_b101_an_owner_that_is_not_usable_means_the_default(
    pool: AsyncPool, rows: Connection, owner: Tables
) -> None:
    assert await length(pool, rows, crm_of(owner, agent("a", 20_000), owner="owner")) == DEFAULT_MS


async def test_b040_highest_priority_then_earliest_created(pool: AsyncPool, rows: Connection) -> None:
    low, high = agent("low", 1_000, priority=1), agent("high", 2_000, priority=5)
    assert await length(pool, rows, crm_of(low, high)) == 2_000
    late, early = agent("late", 3_000, created_at=9), agent("early", 4_000, created_at=5)
    assert await length(pool, rows, crm_of(late, early)) == 4_000


async def test_b041_one_on_air_before_a_paused_one(pool: AsyncPool, rows: Connection) -> None:
    paused, on_air = agent("paused", 1_000, priority=9, paused_at=1), agent("on air", 2_000)
    assert await length(pool, rows, crm_of(paused, on_air)) == 2_000
    assert await length(pool, rows, crm_of(paused)) == 1_000


async def test_agents_that_do_not_count(pool: AsyncPool, rows: Connection) -> None:
    for other in (
        agent("a", 1_000, session="another"),
        agent("a", 1_000, archived_at=1),
        agent("a", 1_000, status="draft"),
        agent("a", 1_000, organization_id=uid("another clinic")),
    ):
        assert await length(pool, rows, crm_of(other)) == DEFAULT_MS


async def test_an_unknown_conversation_has_the_sessions_agent(pool: AsyncPool, rows: Connection) -> None:
    tables = {**crm_of(agent("a", 20_000)), "conversations": []}
    assert await length(pool, rows, tables) == 20_000


# -- mode, max_wait, max_events


def tell(
    rows: Connection, agent: str | None, mode: str | None, max_wait_ms: int | None, max_events: int | None
) -> None:
    rows.execute(
        "INSERT INTO rajada.windows_settings VALUES (%s, %s, %s, %s, %s)",
        (uid("clinic"), uid(agent) if agent else None, mode, max_wait_ms, max_events),
    )


async def test_settings_of_the_organization_and_of_its_agent(pool: AsyncPool, rows: Connection) -> None:
    replace_rows(rows, crm_of(agent("a", 20_000)))
    tell(rows, None, "sliding", 40_000, None)
    tell(rows, "a", None, 50_000, 9)
    tell(rows, "another", "fixed", 1_000, 1)
    rule = (await WindowLengths(pool, SETTINGS).lookup([KEY]))[KEY]
    assert rule == WindowRule(20_000, mode="sliding", max_wait_ms=50_000, max_events=9)


async def test_without_settings_the_installations(pool: AsyncPool, rows: Connection) -> None:
    replace_rows(rows, crm_of(agent("a", 20_000)))
    settings = Settings(
        inbound_debounce_ms=DEFAULT_MS, window_mode="sliding", max_wait_ms=31_000, max_events=5
    )
    rule = (await WindowLengths(pool, settings).lookup([KEY]))[KEY]
    assert rule == WindowRule(20_000, mode="sliding", max_wait_ms=31_000, max_events=5)


# -- the cache, and a database that is slow or away


async def test_one_statement_serves_a_batch_and_holds_for_30_s(pool: AsyncPool, rows: Connection) -> None:
    replace_rows(rows, crm_of(agent("a", 20_000)))
    other: Key = (uid("clinic"), uid("unknown"), uid("unknown"))
    clock = Clock()
    lengths = WindowLengths(pool, SETTINGS, monotonic=clock)
    rules = await lengths.lookup([KEY, other, KEY])
    assert (rules[KEY].length_ms, rules[other].length_ms) == (20_000, DEFAULT_MS)
    replace_rows(rows, crm_of(agent("a", 1_000)))
    clock.now += CACHED_S - 0.1
    assert (await lengths.lookup([KEY]))[KEY].length_ms == 20_000
    clock.now += 0.2
    assert (await lengths.lookup([KEY]))[KEY].length_ms == 1_000
    assert await lengths.lookup([]) == {}


async def test_b102_a_failing_look_up_means_the_default_and_rests(
    pool: AsyncPool, rows: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_rows(rows, crm_of(agent("a", 20_000)))
    rows.execute("ALTER TABLE ai_agents RENAME TO gone")
    clock = Clock()
    lengths = WindowLengths(pool, SETTINGS, monotonic=clock)
    try:
        assert (await lengths.lookup([KEY]))[KEY].length_ms == DEFAULT_MS
        assert "window_lengths_unknown" in capsys.readouterr().out
    finally:
        rows.execute("ALTER TABLE gone RENAME TO ai_agents")
    assert (await lengths.lookup([KEY]))[KEY].length_ms == DEFAULT_MS
    clock.now += REST_S
    assert (await lengths.lookup([KEY]))[KEY].length_ms == 20_000


async def test_b102_a_late_answer_is_not_waited_for_but_kept(
    pool: AsyncPool, crm: str, rows: Connection
) -> None:
    replace_rows(rows, crm_of(agent("a", 20_000)))
    clock = Clock()
    lengths = WindowLengths(pool, SETTINGS, monotonic=clock)
    with psycopg.connect(crm) as holder:
        holder.execute("LOCK TABLE ai_agents IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        assert (await lengths.lookup([KEY]))[KEY].length_ms == DEFAULT_MS
        assert 0.2 < time.monotonic() - started < 2
        # while one is under way no other is begun, however long ago it failed
        clock.now += 2 * REST_S
        started = time.monotonic()
        assert (await lengths.lookup([KEY]))[KEY].length_ms == DEFAULT_MS
        assert time.monotonic() - started < 0.2
    assert lengths._late is not None
    await lengths._late
    assert (await lengths.lookup([KEY]))[KEY].length_ms == 20_000


async def test_b102_nobody_listens(crm: str, unused_tcp_port: int) -> None:
    url = psycopg.conninfo.make_conninfo(crm, port=unused_tcp_port)
    async with async_pool(url, name="lengths", min_size=0, timeout_s=0.1) as pool:
        assert (await WindowLengths(pool, SETTINGS).lookup([KEY]))[KEY].length_ms == DEFAULT_MS


async def test_the_cache_is_bounded(
    pool: AsyncPool, rows: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.lengths.MOST_CACHED", 10)
    replace_rows(rows, crm_of(agent("a", 20_000)))
    lengths = WindowLengths(pool, SETTINGS)
    keys: list[Key] = [(uid("clinic"), uid(f"c{n}"), uid("s")) for n in range(25)]
    assert {rule.length_ms for rule in (await lengths.lookup(keys)).values()} == {20_000}
    assert len(lengths._cache) == 10
