"""Reading facts when something is wrong: a row, a statement, the server, the network."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from db.pool import AsyncPool, async_pool
from db.queries import load
from streams.decide import Enqueue, decide
from streams.fact_statements import parameters
from streams.facts import FactReader, ReadFailure
from streams.question import AskedEvent, DatabaseAway, Facts, Question, Rules, Unreadable
from streams.slow_windows import SPENDS_AFTER
from tests.integration.crm_tables import Connection, Tables, crm_database, replace_rows
from tests.integration.slow_network import Network, network_to
from tests.unit.builders import uid

NOW_MS = time.time_ns() // 1_000_000
WINDOWS = 21
"""Of as many conversations, contacts and sessions; the last of each is the odd one in most tests."""
ODD = WINDOWS - 1


@pytest.fixture(scope="module")
def template(postgres: str) -> Iterator[str]:
    """Name of a database with the rows of all tests."""
    name = f"facts_{uuid.uuid4().hex[:10]}"
    with crm_database(postgres, name) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            replace_rows(connection, _tables())
        yield name


@pytest.fixture
def crm(postgres: str, template: str) -> Iterator[str]:
    """URL of a copy that a test may spoil."""
    name = f"facts_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        yield make_conninfo(postgres, dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        yield connection


def _tables() -> Tables:
    organization = {"organization_id": uid("clinic")}
    return {
        "organizations": [{"id": uid("clinic"), "status": "active"}],
        "channel_sessions": [{**organization, "id": uid(f"s{n}")} for n in range(WINDOWS)],
        "contacts": [{**organization, "id": uid(f"p{n}")} for n in range(WINDOWS)],
        "conversations": [
            {**organization, "id": uid(f"c{n}"), "contact_id": uid(f"p{n}"),
             "channel_session_id": uid(f"s{n}")}
            for n in range(WINDOWS)
        ],
        "messages": [
            {**organization, "id": uid(f"m{n}"), "conversation_id": uid(f"c{n}"), "contact_id": uid(f"p{n}"),
             "direction": "inbound", "created_at": NOW_MS}
            for n in range(WINDOWS)
        ],
        "ai_agents": [
            {**organization, "id": uid(f"a{n}"), "published_version_id": uid(f"v{n}")} for n in range(WINDOWS)
        ],
        "ai_agent_versions": [
            {**organization, "id": uid(f"v{n}"), "agent_id": uid(f"a{n}"), "channel_session_id": uid(f"s{n}"),
             "status": "published"}
            for n in range(WINDOWS)
        ],
        "followup_flow_versions": [{**organization, "id": uid("flow"), "graph": {}}],
        "followup_flow_pointers": [
            {**organization, "id": uid("pointer"), "status": "active", "active_version_id": uid("flow"),
             "trigger_config": {"kind": "inbound_after_silence", "params": {"threshold_minutes": 60}}}
        ],
    }  # fmt: skip


def _questions() -> list[Question]:
    return [
        Question(
            organization_id=uid("clinic"),
            conversation_id=uid(f"c{n}"),
            contact_id=uid(f"p{n}"),
            channel_session_id=uid(f"s{n}"),
            events=(AskedEvent(uid(f"e{n}"), uid(f"m{n}"), NOW_MS),),
            now_ms=NOW_MS,
            deadline_ms=NOW_MS,
        )
        for n in range(WINDOWS)
    ]


@asynccontextmanager
async def pool_on(url: str) -> AsyncIterator[AsyncPool]:
    async with async_pool(url, name="facts", min_size=0, max_size=2) as pool:
        yield pool


@asynccontextmanager
async def pool_behind(url: str) -> AsyncIterator[tuple[Network, AsyncPool]]:
    """A pool whose connections go through a network that can be slow or silent."""
    server = conninfo_to_dict(url)
    async with (
        network_to(str(server["host"]), int(str(server["port"]))) as network,
        pool_on(make_conninfo(url, port=network.port)) as pool,
    ):
        yield network, pool


def poison(rows: Connection, table: str, column: str, odd_id: str, instead: str) -> None:
    """Make reading `column` of the row `odd_id` do `instead`, an expression of SQL, for example fail."""
    columns = rows.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        (table,),
    ).fetchall()
    selected = ", ".join(
        f"CASE WHEN id = '{odd_id}' THEN {instead} ELSE {name} END AS {name}" if name == column else str(name)
        for (name,) in columns
    )
    rows.execute(f"ALTER TABLE {table} RENAME TO real_{table}".encode())
    rows.execute(f"CREATE VIEW {table} AS SELECT {selected} FROM real_{table}".encode())


def fails(of_type: str) -> str:
    """An expression that divides by zero, when it is read and not before."""
    return f"(1 / (length(id::text) - 36))::text::{of_type}"


def sleeps(of_type: str) -> str:
    return f"(SELECT pg_sleep(5))::text::{of_type}"


async def test_all_is_well(crm: str) -> None:
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(_questions())
        assert [
            decide(question, _facts(one), Rules()) for question, one in zip(_questions(), read, strict=True)
        ] == [Enqueue(uid(f"e{n}")) for n in range(WINDOWS)]
        assert await FactReader(pool).read([]) == []


def _facts(one: Facts | ReadFailure) -> Facts:
    assert isinstance(one, Facts), one
    return one


async def test_three_statements_cost_one_round_trip(crm: str) -> None:
    async with pool_behind(crm) as (network, pool):
        reader = FactReader(pool)
        await reader.read(_questions())
        network.delay_s = 0.2
        started = time.monotonic()
        await reader.read(_questions())
        took_s = time.monotonic() - started
    # one round trip is 0.4 s; taking the connection from the pool costs none
    assert 0.4 <= took_s < 0.75, took_s


@pytest.mark.parametrize(("finished", "seen"), [(19, True), (20, False)])
async def test_b081_b082_the_newest_twenty_files_are_looked_at(
    crm: str, rows: Connection, finished: int, seen: bool
) -> None:
    rows.execute(
        "INSERT INTO messages (organization_id, conversation_id, direction, type, media_url, "
        "media_derived_status, created_at) "
        "SELECT %s, %s, 'inbound', 'audio', 'u', CASE WHEN n = 0 THEN 'pending' ELSE 'ready' END, "
        "now() - make_interval(secs => 100 - n) FROM generate_series(0, %s) n",
        (uid("clinic"), uid("c0"), finished),
    )
    async with pool_on(crm) as pool:
        (read, *_) = await FactReader(pool).read(_questions())
    assert (_facts(read).unread_media_created_ms is not None) == seen


# -- one window is odd


async def test_a_row_that_breaks_the_facts_costs_only_its_window(crm: str, rows: Connection) -> None:
    poison(rows, "contacts", "organization_id", uid(f"p{ODD}"), fails("uuid"))
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(_questions())
    failure = read[ODD]
    assert isinstance(failure, ReadFailure)
    assert failure.error_class == "sqlstate_22012" and failure.spends_attempt
    assert all(_facts(one).contact_found for one in read[:ODD])


@pytest.mark.parametrize("status", ["pending", "done"])
async def test_an_event_id_that_is_another_contacts_is_known_as_such(
    crm: str, rows: Connection, status: str
) -> None:
    """Its row in the log says whose it is; the same row is no obstacle for the contact itself."""
    asked = _questions()
    taken = asked[0].events[0].event_id
    payload = f'{{"contact_id": "{asked[1].contact_id}"}}'
    rows.execute(
        "INSERT INTO event_log (id, organization_id, event_type, payload, status)"
        " VALUES (%s, %s, 'ai_agent.dispatch_requested', %s, %s)",
        [taken, asked[0].organization_id, payload, status],
    )
    key = f"{asked[1].organization_id}:{asked[1].contact_id}"
    rows.execute("UPDATE event_log SET partition_key = %s WHERE id = %s", [key, taken])
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read([*asked, replace(asked[1], events=asked[0].events)])
    assert isinstance(read[0], Facts) and isinstance(read[-1], Facts)
    assert read[0].of_others == {taken: None}
    assert read[-1].of_others == {}
    assert read[0].known == read[-1].known == ({taken: None} if status == "done" else {})


async def test_an_event_that_another_contacts_job_names_is_that_contacts(crm: str, rows: Connection) -> None:
    asked = _questions()
    taken, job = asked[0].events[0].event_id, uid("job")
    rows.execute(
        "INSERT INTO job_queue (id, organization_id, contact_id, kind, source_event_id)"
        " VALUES (%s, %s, %s, 'inbound_turn', %s)",
        [job, asked[0].organization_id, asked[1].contact_id, taken],
    )
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read([asked[0], replace(asked[1], events=asked[0].events)])
    assert [(one.known, one.of_others) for one in read if isinstance(one, Facts)] == [
        ({taken: job}, {taken: job}),
        ({taken: job}, {}),
    ]


@pytest.mark.parametrize("odd_id", ["abc", "", "{", "x,y", uid("e0") + "," + uid("e1"), "'"])
async def test_an_id_that_is_none_breaks_only_its_window(crm: str, odd_id: str) -> None:
    questions = _questions()
    questions[3] = replace(questions[3], conversation_id=odd_id)
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(questions)
    assert isinstance(read[3], ReadFailure)
    others = [
        decide(q, _facts(one), Rules()) for q, one in zip(questions, read, strict=True) if one is not read[3]
    ]
    assert others == [Enqueue(uid(f"e{n}")) for n in range(WINDOWS) if n != 3]


async def test_b069_a_failing_gate_opens_for_its_window_alone(crm: str, rows: Connection) -> None:
    poison(rows, "channel_sessions", "metadata", uid(f"s{ODD}"), fails("jsonb"))
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(_questions())
    assert _facts(read[ODD]).eligibility == Unreadable("sqlstate_22012")
    assert not any(isinstance(_facts(one).eligibility, Unreadable) for one in read[:ODD])
    decision = decide(_questions()[ODD], _facts(read[ODD]), Rules())
    assert decision == Enqueue(uid(f"e{ODD}"), warnings=("eligibility_unreadable",))


async def test_b155_a_failing_follow_up_opens_for_its_window_alone(crm: str, rows: Connection) -> None:
    poison(rows, "contacts", "is_blocked", uid(f"p{ODD}"), f"({fails('int')} = 0)")
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(_questions())
    assert _facts(read[ODD]).followup == Unreadable("sqlstate_22012")
    flows = [_facts(one).followup for one in read[:ODD]]
    assert not any(isinstance(one, Unreadable) for one in flows)
    decision = decide(_questions()[ODD], _facts(read[ODD]), Rules())
    assert decision == Enqueue(uid(f"e{ODD}"), warnings=("followup_unreadable",))


async def test_all_three_statements_may_fail_at_once_for_different_windows(
    crm: str, rows: Connection
) -> None:
    poison(rows, "contacts", "is_blocked", uid("p2"), f"({fails('int')} = 0)")
    poison(rows, "channel_sessions", "metadata", uid("s5"), fails("jsonb"))
    poison(rows, "conversations", "is_group", uid("c9"), f"({fails('int')} = 0)")
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(_questions())
    assert isinstance(read[9], ReadFailure)
    assert isinstance(_facts(read[2]).followup, Unreadable)
    assert isinstance(_facts(read[5]).eligibility, Unreadable)
    assert sum(isinstance(one, Facts) for one in read) == WINDOWS - 1


async def test_metadata_that_nobody_can_read_opens_the_gate_with_a_warning(
    crm: str, rows: Connection
) -> None:
    rows.execute("UPDATE channel_sessions SET metadata = jsonb_build_object('ai_gate', (repeat('[', 1500) || "
                 "repeat(']', 1500))::jsonb) WHERE id = %s", (uid("s1"),))  # fmt: skip
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(_questions())
    assert _facts(read[1]).eligibility == Unreadable("channel_metadata")


# -- timeouts


async def test_a_window_that_times_out_alone_spends_an_attempt_the_fifth_time(
    crm: str, rows: Connection
) -> None:
    poison(rows, "conversations", "is_group", uid(f"c{ODD}"), f"({sleeps('text')} = '')")
    questions = _questions()[ODD - 1 :]
    async with pool_on(crm) as pool:
        reader = FactReader(pool, statement_timeout_ms=200)
        spent = []
        for _ in range(SPENDS_AFTER):
            other, slow = await reader.read(questions)
            assert isinstance(other, Facts) and isinstance(slow, ReadFailure)
            assert slow.error_class == "sqlstate_57014"
            spent.append(slow.spends_attempt)
    assert spent == [False] * (SPENDS_AFTER - 1) + [True]


async def test_when_everything_times_out_the_database_counts_as_away(crm: str, rows: Connection) -> None:
    rows.execute("ALTER TABLE organizations RENAME TO real_organizations")
    rows.execute(
        "CREATE VIEW organizations AS "
        "SELECT id, settings, (SELECT pg_sleep(5) || status)::text AS status FROM real_organizations"
    )
    async with pool_on(crm) as pool:
        with pytest.raises(DatabaseAway, match="times out again and again"):
            await FactReader(pool, statement_timeout_ms=40).read(_questions())


# -- away


async def test_a_missing_table_costs_nobody_an_attempt(crm: str, rows: Connection) -> None:
    async with pool_on(crm) as pool:
        reader = FactReader(pool)
        await reader.read(_questions())
        rows.execute("ALTER TABLE messages RENAME COLUMN media_url TO gone")
        with pytest.raises(DatabaseAway, match="rajada doctor"):
            await reader.read(_questions())
        rows.execute("ALTER TABLE messages RENAME COLUMN gone TO media_url")
        assert all(isinstance(one, Facts) for one in await reader.read(_questions()))


async def test_a_missing_follow_up_table_opens_for_all(crm: str, rows: Connection) -> None:
    rows.execute("DROP TABLE followup_enrollment_events")
    async with pool_on(crm) as pool:
        read = await FactReader(pool).read(_questions())
    assert {_facts(one).followup for one in read} == {Unreadable("sqlstate_42P01")}


async def test_a_connection_that_breaks_means_away_and_the_next_one_serves(
    crm: str, rows: Connection
) -> None:
    async with pool_on(crm) as pool:
        reader = FactReader(pool)
        await reader.read(_questions())
        with psycopg.connect(crm) as holder:
            holder.execute("LOCK TABLE contacts IN ACCESS EXCLUSIVE MODE")
            reading = asyncio.ensure_future(reader.read(_questions()))
            await _blocked_on_a_lock(rows)
            rows.execute(f"SELECT pg_terminate_backend(pid) {OF_THE_READER}".encode())
            with pytest.raises(DatabaseAway, match="windows wait"):
                await reading
        assert all(isinstance(one, Facts) for one in await reader.read(_questions()))


OF_THE_READER = (
    "FROM pg_stat_activity WHERE application_name = 'rajada-facts' AND datname = current_database()"
)


async def _blocked_on_a_lock(rows: Connection) -> None:
    for _ in range(500):
        if (
            rows.execute(f"SELECT {OF_THE_READER} AND wait_event_type = 'Lock'".encode()).fetchone()
            is not None
        ):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nobody waits for the lock")


async def test_nobody_listens(crm: str, unused_tcp_port: int) -> None:
    url = make_conninfo(crm, port=unused_tcp_port)
    async with async_pool(url, name="facts", min_size=0, timeout_s=0.3) as pool:
        with pytest.raises(DatabaseAway):
            await FactReader(pool).read(_questions())


async def test_a_silent_server_is_given_up(crm: str) -> None:
    async with pool_behind(crm) as (network, pool):
        reader = FactReader(pool, answer_within_s=0.5)
        await reader.read(_questions())
        network.silent = True
        started = time.monotonic()
        with pytest.raises(DatabaseAway):
            await reader.read(_questions())
        assert time.monotonic() - started < 3
        network.silent = False
        assert all(isinstance(one, Facts) for one in await reader.read(_questions()))


async def test_a_read_that_waits_on_a_silent_server_can_be_cancelled(crm: str) -> None:
    async with pool_behind(crm) as (network, pool):
        reader = FactReader(pool, answer_within_s=30)
        await reader.read(_questions())
        network.silent = True
        reading = asyncio.ensure_future(reader.read(_questions()))
        await asyncio.sleep(0.1)
        reading.cancel()
        done, _ = await asyncio.wait({reading}, timeout=3)
        assert done and reading.cancelled()


# -- plans


HOT = ("messages", "conversations", "contacts", "event_log", "job_queue", "followup_enrollments")


@pytest.mark.parametrize("statement", ["decide_facts", "decide_followup", "decide_eligibility"])
def test_hot_tables_are_read_by_an_index(rows: Connection, statement: str) -> None:
    rows.execute("SET enable_seqscan = off")
    plan = [str(row[0]) for row in rows.execute(f"EXPLAIN {load(statement)}", parameters(_questions()))]
    assert not [line for line in plan for table in HOT if f"Seq Scan on {table}" in line]


def test_event_ids_in_payloads_are_found_by_their_index(rows: Connection) -> None:
    rows.execute("SET enable_seqscan = off")
    plan = rows.execute(f"EXPLAIN {load('decide_facts')}", parameters(_questions())).fetchall()
    assert any("rajada_job_queue_event_ids" in str(row[0]) for row in plan)
