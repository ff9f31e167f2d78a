"""Facts about the reference's alerts: what dies in the stages opens items in the inbox, by the real sink."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
import pytest
from structlog.testing import capture_logs

from schemas.alert_texts import title
from schemas.records import Outcome
from sinks.writer import Writer
from streams.decide import CONTACT_MISSING, Fail
from streams.events import EVENT_TYPE
from tests.integration.clinic_state import State
from tests.integration.crm_tables import Connection, crm_database, replace_rows
from tests.integration.sink_lab import until
from tests.integration.stages import tell
from tests.unit.builders import uid
from tests.unit.living import pass_time, publish
from tests.unit.worlds import Worker, World

OWN = ("clinic", "event_dead", "critical", title("event_dead"), "open")
"""The item that a death of this clinic opens, but for its count."""
Item = tuple[str, str, str, str, str, int]
"""Organization by name, kind, severity, title, status, occurrences."""


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"alerts_{uuid.uuid4().hex[:10]}") as url:
        yield url


@pytest.fixture(scope="module")
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def writer(crm: str) -> Iterator[Writer]:
    with Writer(crm) as writer:
        yield writer


async def die(rows: Connection, *names: str, inbox: Sequence[dict[str, object]] = ()) -> list[Outcome]:
    """The outcomes of events whose last attempt failed; their rows and these items are in the database."""
    world = World(now_ms=time.time_ns() // 1_000_000)
    world.decide = lambda _: Fail(error_class=CONTACT_MISSING, message="x" * 1_000)
    state = State(world.now_ms).drop("event_log").drop("messages")
    for name in names:
        state.put("event_log", name, event_type="ai_agent.dispatch_requested", status="pending", attempts=4)
        publish(world, name, contact=f"contact of {name}", attempts=4)
    for n, item in enumerate(inbox):
        state.put("agent_inbox_items", f"item {n}", **{**_item(), **item})
    replace_rows(rows, state.tables())
    await pass_time(world, Worker(world), 8_000)
    return world.outcomes()


def _item() -> dict[str, object]:
    """An open item of the family, opened before."""
    return {
        "kind": "event_dead",
        "severity": "critical",
        "title": title("event_dead"),
        "status": "open",
        "created_at": -60,
    }


def inbox(rows: Connection) -> list[Item]:
    """The inbox, oldest first."""
    names = {uid(name): name for name in ("clinic", "neighbour")}
    found = rows.execute(
        "SELECT organization_id::text, kind, severity, title, status, occurrences FROM agent_inbox_items"
        " ORDER BY created_at, status"
    ).fetchall()
    return [(names[str(one[0])], *one[1:]) for one in found]  # type: ignore[misc]  # the statement says which


def dead(rows: Connection) -> int:
    """How many events are dead."""
    return len(rows.execute("SELECT FROM event_log WHERE status = 'dead' AND attempts = 5").fetchall())


async def test_b118_a_thousand_deaths_are_one_alert(rows: Connection, writer: Writer) -> None:
    tell(writer, await die(rows, *(f"e{n}" for n in range(1_000))))
    assert inbox(rows) == [(*OWN, 1_000)]
    assert dead(rows) == 1_000


@pytest.mark.parametrize(
    ("there", "then"),
    [
        pytest.param({"organization_id": "neighbour"}, [("neighbour", *OWN[1:], 1), (*OWN, 1)], id="b119"),
        pytest.param({"status": "resolved"}, [(*OWN[:4], "resolved", 1), (*OWN, 1)], id="b120"),
        pytest.param({"status": "ack"}, [(*OWN[:4], "ack", 1), (*OWN, 1)], id="b121"),
        pytest.param({"title": "other"}, [(*OWN[:3], "other", "open", 1), (*OWN, 1)], id="b122"),
        # counted up where the reference leaves it as it is
        pytest.param({}, [(*OWN, 2)], id="b123"),
    ],
)
async def test_beside_an_item(
    rows: Connection, writer: Writer, there: dict[str, object], then: list[Item]
) -> None:
    tell(writer, await die(rows, "e1", inbox=[there]))
    assert inbox(rows) == then


async def test_b124_an_alert_that_cannot_be_written_stops_nothing(rows: Connection, writer: Writer) -> None:
    rows.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'no more alerts'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON agent_inbox_items FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    outcomes = await die(rows, "e1", "e2", "e3")
    try:
        with capture_logs() as logs:
            tell(writer, outcomes)
    finally:
        rows.execute("DROP TRIGGER refuse ON agent_inbox_items")
    assert dead(rows) == 3 and inbox(rows) == []
    assert [one["event"] for one in logs] == ["alert_failed"]


@contextmanager
def one_open_item_each(rows: Connection) -> Iterator[None]:
    """The index by which the CRM allows one open item of a family."""
    rows.execute(
        "CREATE UNIQUE INDEX one_open ON agent_inbox_items (organization_id, kind, title)"
        " WHERE status = 'open'"
    )
    try:
        yield
    finally:
        rows.execute("DROP INDEX one_open")


async def test_b125_who_loses_the_race_to_the_crms_own_drain_counts_it_as_open(
    rows: Connection, writer: Writer
) -> None:
    outcomes = await die(rows, "e1")
    with one_open_item_each(rows):
        with psycopg.connect(rows.info.dsn) as drain:
            drain.execute(
                "INSERT INTO agent_inbox_items (organization_id, kind, severity, title)"
                " VALUES (%s, 'event_dead', 'critical', %s)",
                [uid("clinic"), title("event_dead")],
            )
            loser = threading.Thread(target=tell, args=(writer, outcomes))
            loser.start()
            until(lambda: _waits(rows), "the sink waits for the drain's row")
            drain.commit()
            loser.join(10)
        assert inbox(rows) == [(*OWN, 1)]
    assert dead(rows) == 1


async def test_b125_of_two_sinks_the_second_counts_up(rows: Connection, crm: str) -> None:
    outcomes = await die(rows, "e1", "e2", "e3", "e4")
    with one_open_item_each(rows), Writer(crm) as one, Writer(crm) as two:
        sinks = [
            threading.Thread(target=tell, args=(sink, part))
            for sink, part in ((one, outcomes[:2]), (two, outcomes[2:]))
        ]
        for sink in sinks:
            sink.start()
        for sink in sinks:
            sink.join(10)
        assert inbox(rows) == [(*OWN, 4)]
    assert dead(rows) == 4


def _waits(rows: Connection) -> bool:
    return bool(
        rows.execute(
            "SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'rajada-sink' AND wait_event_type = 'Lock'"
        ).fetchall()
    )


async def test_b126_the_text_says_what_happened_what_to_do_and_last_why(
    rows: Connection, writer: Writer
) -> None:
    tell(writer, await die(rows, "e1"))
    ((body, ref_kind, ref_id),) = rows.execute(
        "SELECT body, ref_kind, ref_id::text FROM agent_inbox_items"
    ).fetchall()
    told, why = str(body).split("\n\n")
    assert told.startswith("Um cliente escreveu e não recebeu resposta da IA.")
    assert "Abra a conversa e responda" in told
    assert why.startswith(
        f"Detalhe técnico: {EVENT_TYPE}, {CONTACT_MISSING}, tentativas: 5, evento {uid('e1')}. "
    )
    assert why.count("x") == 400, "the reason, cut"
    for name in ("c1", "e1 of ana", "session", "message of e1"):
        assert uid(name) not in str(body)
    assert (ref_kind, ref_id) == ("event_log", uid("e1")), (
        "it names the event, no conversation and no contact"
    )
