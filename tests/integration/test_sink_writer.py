"""One transaction of the sink: the offsets decide whether it counts, and who waits for whom."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from db.pool import conninfo_for
from db.queries import load
from schemas.records import Alert
from settings import Settings
from sinks.alerts import raise_alerts
from sinks.batch import Taken, batch_of
from sinks.failures import PositionMoved, Refused, Unavailable
from sinks.offsets import Database, read_positions
from sinks.rows import AlertRow
from sinks.writer import SESSION, Writer
from tests.integration.sink_lab import Lab, until

TOPIC_ID = "topic-1"


@pytest.fixture
def lab(kafka: str, database: str, prefix: str) -> Iterator[Lab]:
    made = Lab(database, kafka, Settings(topic_prefix=prefix))
    yield made
    made.close()


@pytest.fixture
def writers(database: str) -> Iterator[tuple[Writer, Writer]]:
    with Writer(database) as one, Writer(database) as two:
        yield one, two


def test_a_writer_with_an_old_position_writes_nothing(lab: Lab, writers: tuple[Writer, Writer]) -> None:
    one, two = writers
    first, second = lab.event(), lab.event()
    old = two.positions(TOPIC_ID, "t", [0, 1])
    assert old == {0: 0, 1: 0}
    assert one.write(TOPIC_ID, batch_of([Taken(0, 1, lab.outcome(first))]), old) == {0: 1}
    with pytest.raises(PositionMoved):
        two.write(TOPIC_ID, batch_of([Taken(0, 2, lab.outcome(second)), Taken(1, 9)]), old)
    assert lab.row(second)["status"] == "pending"
    assert two.positions(TOPIC_ID, "t", [0, 1]) == {0: 1, 1: 0}
    assert two.write(TOPIC_ID, batch_of([Taken(0, 2, lab.outcome(second))]), {0: 1}) == {0: 2}
    assert lab.row(second)["status"] == "done"


def test_the_second_of_two_writers_waits_for_the_first_and_then_loses(
    lab: Lab, writers: tuple[Writer, Writer], database: str
) -> None:
    one, two = writers
    event = lab.event()
    positions = one.positions(TOPIC_ID, "t", [0])
    lost: list[Exception] = []

    def lose() -> None:
        try:
            two.write(TOPIC_ID, batch_of([Taken(0, 1, lab.outcome(event))]), positions)
        except PositionMoved as moved:
            lost.append(moved)

    with psycopg.connect(database) as holder:
        holder.execute("SELECT FROM event_log WHERE id = %s FOR UPDATE", [event])
        winner = threading.Thread(
            target=one.write, args=(TOPIC_ID, batch_of([Taken(0, 1, lab.outcome(event))]), positions)
        )
        winner.start()
        until(lambda: waiting(lab) == 1, "the first waits for the event's row")
        loser = threading.Thread(target=lose)
        loser.start()
        until(lambda: waiting(lab) == 2, "the second waits for the offset's row")
        holder.rollback()
        winner.join(10)
        loser.join(10)
    assert len(lost) == 1
    assert lab.row(event)["status"] == "done"
    assert lab.value("SELECT count(*) FROM rajada.trace") == 1


def waiting(lab: Lab) -> int:
    return lab.value(
        "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'rajada-sink' AND wait_event_type = 'Lock'"
    )


def test_offsets_of_another_topic_id_are_another_line(lab: Lab, writers: tuple[Writer, Writer]) -> None:
    one, _ = writers
    one.write(TOPIC_ID, batch_of([Taken(0, 5)]), one.positions(TOPIC_ID, "t", [0]))
    assert one.positions("topic-2", "t", [0]) == {0: 0}
    assert one.positions(TOPIC_ID, "t", [0]) == {0: 5}


def test_a_refused_batch_leaves_nothing_not_even_its_offset(lab: Lab, writers: tuple[Writer, Writer]) -> None:
    one, _ = writers
    event = lab.event()
    positions = one.positions(TOPIC_ID, "t", [0])
    batch = [Taken(0, 1, lab.outcome(event)), Taken(0, 2, lab.outcome(lab.event(), status="odd"))]
    with pytest.raises(Refused):
        one.write(TOPIC_ID, batch_of(batch), positions)
    assert lab.row(event)["status"] == "pending"
    assert one.positions(TOPIC_ID, "t", [0]) == {0: 0}
    assert one.write(TOPIC_ID, batch_of(batch[:1]), positions) == {0: 1}


def test_a_broken_connection_is_replaced(lab: Lab, writers: tuple[Writer, Writer]) -> None:
    one, _ = writers
    event = lab.event()
    positions = one.positions(TOPIC_ID, "t", [0])
    lab.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'rajada-sink' AND datname = current_database()"
    )
    with pytest.raises(Unavailable, match="away"):
        one.write(TOPIC_ID, batch_of([Taken(0, 1, lab.outcome(event))]), positions)
    assert one.write(TOPIC_ID, batch_of([Taken(0, 1, lab.outcome(event))]), positions) == {0: 1}


def test_two_sinks_at_once_open_one_alert(lab: Lab, database: str) -> None:
    """The second waits for the lock and then sees the row that the first wrote."""
    alert = AlertRow(lab.organization, "event_dead", "t", "b", None, None, 1)
    opened = threading.Event()

    def raise_too() -> None:
        with connected(database) as other, other.transaction():
            raise_alerts(other, [alert])
        opened.set()

    with connected(database) as database_one:
        with database_one.transaction():
            raise_alerts(database_one, [alert])
            second = threading.Thread(target=raise_too)
            second.start()
            until(lambda: waiting(lab) == 1, "the second waits for the lock")
            assert not opened.is_set()
        second.join(10)
    assert lab.execute("SELECT occurrences FROM agent_inbox_items") == [(2,)]


def test_an_organization_that_goes_while_its_alert_is_written_leaves_it_to_the_platform(
    lab: Lab, database: str
) -> None:
    gone = str(uuid.uuid4())
    with connected(database) as one, one.transaction():
        raise_alerts(one, [AlertRow(gone, "event_dead", "t", "b", None, None, 2)])
    assert lab.execute("SELECT organization_id, occurrences FROM agent_inbox_items") == [(None, 2)]


def connected(url: str) -> Database:
    return psycopg.connect(url, autocommit=True, application_name="rajada-sink")


def test_alerts_of_different_families_do_not_wait_for_each_other(lab: Lab, database: str) -> None:
    with connected(database) as one, connected(database) as two, one.transaction():
        raise_alerts(one, [AlertRow(lab.organization, "event_dead", "t", "b", None, None, 1)])
        two.execute("SET lock_timeout = '1s'")
        with two.transaction():
            raise_alerts(two, [AlertRow(lab.organization, "event_dead", "u", "b", None, None, 1)])
            raise_alerts(two, [AlertRow(None, "event_dead", "t", "b", None, None, 1)])
    assert lab.value("SELECT count(*) FROM agent_inbox_items") == 3


def test_the_hot_statements_look_rows_up_by_key(lab: Lab, database: str) -> None:
    """With tables that hold something and no statistics, as on the first day."""
    lab.add_events(str(uuid.uuid4()) for _ in range(500))
    with Writer(database) as writer:
        job = lab.job(lab.event())
        outcome = lab.outcome(job.source_event_id, job=job, alert=Alert(kind="k", title="t", body="b"))
        writer.write(TOPIC_ID, batch_of([Taken(0, 1, outcome)]), writer.positions(TOPIC_ID, "t", [0]))
        writer.check()
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    with psycopg.connect(database, options=options, cursor_factory=psycopg.ClientCursor) as connection:
        for name in (
            *("sink_events", "sink_jobs", "sink_jobs_moved", "sink_jobs_behind", "sink_trace"),
            *("sink_group_links", "sink_troubles", "sink_cures"),
        ):
            values = {"rows": "[]", "contacts": [uuid.uuid4()]}
            plan = connection.execute("EXPLAIN " + load(name), values).fetchall()
            text = "\n".join(line for (line,) in plan)
            assert "Seq Scan" not in text, text
            assert "Hash Join" not in text, text


def test_the_traces_partitions_are_made_ahead(lab: Lab, database: str) -> None:
    count = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'rajada.trace'::regclass"
    with Writer(database) as writer:
        for (name,) in lab.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'rajada.trace'::regclass"
        ):
            if not name.endswith("default"):
                lab.execute(f"DROP TABLE {name}")
        assert lab.value(count) == 1
        writer.upkeep()
    assert lab.value(count) == 1 + 8


def test_positions_are_made_once_however_many_ask(lab: Lab, database: str) -> None:
    asked: list[dict[int, int]] = []

    def ask() -> None:
        with connected(database) as connection:
            asked.append(read_positions(connection, TOPIC_ID, "t", range(4)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert asked == [{0: 0, 1: 0, 2: 0, 3: 0}] * 4


# -- plans


BY_ID = ("sink_events", "sink_settle", "sink_jobs", "sink_jobs_moved", "sink_group_links", "sink_trace")


@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed while empty"])
def test_plans_of_a_sink_that_began_on_empty_tables_still_go_by_id(database: str, analysed: bool) -> None:
    with psycopg.connect(conninfo_for(database, "sink", SESSION), autocommit=True) as connection:
        if analysed:
            connection.execute("ANALYZE event_log, job_queue, group_link_dispatch_queue")
        for name in BY_ID:
            connection.execute(f"PREPARE {name} (json) AS {load(name).replace('%(rows)s', '$1')}")
            for _ in range(6):  # from the sixth time on Postgres would keep one plan for all
                connection.execute(f"EXECUTE {name} ('[]')")
        ids = _full_tables(connection)
        rows = json.dumps([_told(*ids, n) for n in range(10)])
        for name in BY_ID:
            plan = connection.execute(f"EXPLAIN (ANALYZE) EXECUTE {name} ('{rows}')").fetchall()
            passed = [
                int(n) for (line,) in plan for n in re.findall(r"Rows Removed by .*Filter: (\d+)", line)
            ]
            assert sum(passed) < FULL, f"{name}:\n" + "\n".join(line for (line,) in plan)


FULL = 2_000
"""Rows of a table: more than a plan by id ever passes over."""


def _full_tables(connection: psycopg.Connection[tuple[str]]) -> tuple[str, str]:
    """Rows of one organization and contact; returns their ids."""
    organization, contact = str(uuid.uuid4()), str(uuid.uuid4())
    connection.execute("INSERT INTO organizations (id) VALUES (%s)", [organization])
    connection.execute("INSERT INTO contacts (id, organization_id) VALUES (%s, %s)", [contact, organization])
    for table, columns, values in (
        ("event_log", "event_type, payload", "'ai_agent.dispatch_requested', '{}'"),
        (
            "job_queue",
            "contact_id, kind, source_event_id, payload",
            f"'{contact}', 'x', gen_random_uuid(), '{{}}'",
        ),
        (
            "group_link_dispatch_queue",
            "enrolment_id, flow, phone, group_link, template_name, template_language",
            "gen_random_uuid(), 'personal', '5511', '', '', ''",
        ),
    ):
        connection.execute(
            f"INSERT INTO {table} (id, organization_id, {columns}) "
            f"SELECT gen_random_uuid(), '{organization}', {values} FROM generate_series(1, {FULL})"
        )
    return organization, contact


def _told(organization: str, contact: str, n: int) -> dict[str, object]:
    """What any of the statements takes: of an event and a job that have no row."""
    return {
        "n": n, "id": str(uuid.uuid4()), "event_id": str(uuid.uuid4()), "job_id": str(uuid.uuid4()),
        "source_event_id": str(uuid.uuid4()), "organization_id": organization, "contact_id": contact,
        "replay": 0, "seq": 1, "status": "done", "outcome": "job", "stage": "decide", "attempts": 1,
        "at_ms": 1_700_000_000_000, "kind": "inbound_turn", "payload": "{}", "priority": 0,
        "max_attempts": 5, "created_at_ms": 0,
    }  # fmt: skip
