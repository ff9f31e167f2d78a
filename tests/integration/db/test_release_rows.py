"""Rows and dead letters that an earlier release left are migrated, read and gone on with by this version.

What they are is in `tests/fixtures/releases/<version>/rows.jsonl`, written by that release's own processes
(`tests/fixtures/releases/write_rows.py`).
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from psycopg import sql
from psycopg.types.json import Jsonb

import db.migrate
from db.migrate import FOLDER, migrate, pending
from db.pool import async_pool
from db.queries import load
from db.tokens import read_token
from ops.job_asks import unfinished
from ops.job_rows import Which, job_rows
from ops.why.visit import why
from schemas.records import EventOutcome, Job, Outcome
from schemas.topic_names import DEAD, SOURCE
from settings import Settings
from streams.decide import Enqueue, decide
from streams.facts import FactReader
from streams.question import AskedEvent, Facts, Question, Rules
from streams.topics import ensure_topics
from tests.fixtures.releases.write_rows import PREFIX, Told, fingerprints, read, rows_of
from tests.integration.alert_desk import Desk
from tests.integration.graveyard import Graveyard
from tests.unit.test_releases import lacking

NOW_MS = time.time_ns() // 1_000_000
TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+[+-]\d\d:\d\d")
STORIES: dict[str, tuple[list[str], list[str]]] = {
    "answered": (["job", "done"], ["done"]),
    "runs": (["job"], ["running"]),
    "waits": (["job", "retry:http_429"], ["retry"]),
    "held": (["job", "retry:http_429", "held:ask Ana first"], ["held"]),
    "vetoed": (["job", "vetoed:no"], ["failed"]),
    "no longer clients": (["org_not_operating"], []),
    "dead event": (["contact_missing", "contact_missing"], []),
    "dropped event": (["contact_missing", "dropped", "contact_missing"], []),
    "untouched": ([], ["unpublished"]),
    "sent link": (["job", "job", "done"], ["done"]),
    "later link": (["job", "job"], ["waiting"]),
}
"""What became of each, in the words of `rajada why`, and where it is now."""
RELEASES = Path(__file__).parents[2] / "fixtures" / "releases"
FILES = sorted(RELEASES.glob("*.*.*/rows.jsonl"))
each_release = pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)


@dataclass
class Kept:
    """What a release left, in a database that was migrated to today's shape."""

    url: str
    told: Told
    before: Sequence[tuple[str, Any]]
    """Its rows, as they were before the migrations that came after it."""
    applied: list[str]
    """Those."""

    def __post_init__(self) -> None:
        self.names: dict[str, str] = dict(self.told["names"])

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)  # type: ignore[arg-type]  # plain text is fine here
            return cursor.fetchall() if cursor.description else []

    def row(self, table: str, name: str) -> dict[str, Any]:
        """Of an event, a job or a group link by its name in the scenario."""
        ((found,),) = self.rows(f"SELECT to_jsonb(t) FROM {table} t WHERE id = %s", self.names[name])
        return found  # type: ignore[no-any-return]


@pytest.fixture(params=FILES, ids=lambda file: file.parent.name)
def kept(request: pytest.FixtureRequest, empty_database: str, monkeypatch: pytest.MonkeyPatch) -> Kept:
    told = read(request.param)
    of_then, todays = dict(told["migrations"]), db.migrate._files
    with monkeypatch.context() as then:
        then.setattr(db.migrate, "_files", lambda crm: todays(crm).filter(lambda one: one.id in of_then))
        assert sorted(migrate(empty_database, crm="ours")) == sorted(of_then)
    with psycopg.connect(empty_database) as connection:
        put(connection, as_of_now(told["rows"]))
        before = rows_of(connection)
    return Kept(empty_database, told, before, migrate(empty_database, crm="ours"))


def as_of_now(rows: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The rows as if the release had been stopped just now: whoever asks what is going on asks the clock."""
    newest = max(datetime.fromisoformat(row["at"]) for table, row in rows if table == "rajada.trace")
    since = datetime.now(UTC) - newest

    def moved(value: Any) -> Any:
        is_time = isinstance(value, str) and TIME.fullmatch(value)
        return (datetime.fromisoformat(value) + since).isoformat() if is_time else value

    return [(table, {name: moved(value) for name, value in row.items()}) for table, row in rows]


def put(connection: psycopg.Connection[Any], rows: Sequence[tuple[str, Any]]) -> None:
    """Make the tables hold these rows; nothing that would change them fires."""
    tables = {table: [row for of, row in rows if of == table] for table, _ in rows}
    connection.execute("SET LOCAL session_replication_role = replica")
    for table, some in tables.items():
        name = sql.Identifier(*table.split("."))
        connection.execute(sql.SQL("DELETE FROM {}").format(name))
        into = sql.SQL(
            "INSERT INTO {0} OVERRIDING SYSTEM VALUE"
            " SELECT t.* FROM jsonb_populate_recordset(NULL::{0}, %s) t"
        )
        connection.execute(into.format(name), [Jsonb(some)])
        counters = connection.execute(
            "SELECT column_name FROM information_schema.columns"
            " WHERE is_identity = 'YES' AND table_schema || '.' || table_name = %s",
            [table],
        ).fetchall()
        for (column,) in counters:
            last = max(row[column] for row in some)
            connection.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", [table, column, last])


@each_release
def test_a_migration_of_a_release_is_never_changed(file: Path) -> None:
    """Databases of that release have it behind them: what is new comes with a file of its own."""
    then, now = dict(read(file)["migrations"]), fingerprints(FOLDER)
    assert {name: now.get(name) for name in then} == then


def test_migrating_leaves_every_row_as_it_was(kept: Kept) -> None:
    assert pending(kept.url, crm="ours") == []
    assert not set(kept.applied) & dict(kept.told["migrations"]).keys()
    with psycopg.connect(kept.url) as connection:
        now = rows_of(connection)
    assert len(kept.before) == len(kept.told["rows"]) > 0
    assert [one for one in kept.before if not any(is_same(one, other) for other in now)] == []


def is_same(then: tuple[str, Any], now: tuple[str, Any]) -> bool:
    """Whether two rows are of one table and say the same; a new column may stand beside it."""
    return then[0] == now[0] and lacking(then[1], now[1]) == []


def test_the_sink_goes_on_from_the_rows(kept: Kept) -> None:
    """What the worker tells after the upgrade counts; what was told before it doesn't count again."""
    with psycopg.connect(kept.url, autocommit=True) as connection:
        jobs = {job.id: job for job in unfinished(connection, None, None, -86_400)}
    runs, waits, held = (jobs[kept.names[f"{one}: job"]] for one in ("runs", "waits", "held"))
    assert len(jobs) == 3
    assert [one.event_id for one in runs.events] == [kept.names["runs"]]
    desk = Desk(kept.url, clear=False)
    try:
        desk.tell(step(runs, "done"), step(waits, "running", attempt=2), step(held, "pending"))
        again = step(runs, "running")
        desk.tell(again, msgspec.structs.replace(again, job=waits, job_id=waits.id))
        new = EventOutcome(event_id=kept.names["untouched"], seq=1, attempts=1)
        desk.tell(told(kept, events=(new,), outcome="assisted_mode"))
        for name in ("answered", "no longer clients"):
            older = EventOutcome(event_id=kept.names[name], seq=0, attempts=1)
            desk.tell(told(kept, events=(older,), status="dead", outcome="contact_missing"))
        dead = EventOutcome(event_id=kept.names["dead event"], replay=1, seq=1, attempts=1)
        desk.tell(told(kept, events=(dead,), outcome="assisted_mode"))
        desk.make_round()
    finally:
        desk.close()
    found = {
        one: kept.row("job_queue", f"{one}: job") for one in ("answered", "runs", "waits", "held", "vetoed")
    }
    states = {one: (row["status"], row["attempts"]) for one, row in found.items()}
    assert states == {
        "answered": ("done", 1), "runs": ("done", 1), "waits": ("running", 2), "held": ("pending", 1),
        "vetoed": ("failed", 1),
    }  # fmt: skip
    assert found["held"]["run_after"] != "infinity"
    events = ("answered", "no longer clients", "untouched", "dead event", "dropped event")
    assert [kept.row("event_log", one)["status"] for one in events] == [
        "done",
        "done",
        "done",
        "done",
        "dead",
    ]
    assert kept.rows("SELECT status, occurrences FROM agent_inbox_items") == [("resolved", 2)], (
        "it has healed"
    )


def step(job: Job, status: str, **moved: Any) -> Outcome:
    """The next transition of a job that the release has left."""
    job = msgspec.structs.replace(job, **{"seq": job.seq + 1, "run_after_ms": NOW_MS, **moved})
    return Outcome(
        organization_id=job.organization_id, contact_id=job.contact_id, at_ms=NOW_MS, stage="execute",
        events=(), status="done", job=job, job_id=job.id, job_status=status,
    )  # fmt: skip


def told(kept: Kept, **changed: Any) -> Outcome:
    """What the worker decides after the upgrade."""
    values = {
        "at_ms": NOW_MS,
        "stage": "decide",
        "status": "done",
        "organization_id": kept.names["organization"],
    }
    return Outcome(**(values | changed))


def test_a_window_is_decided_with_what_the_rows_say(kept: Kept) -> None:
    """Events that the release answered are known by their jobs; the one that it never saw is new."""
    names = ("answered", "runs", "waits", "held", "no longer clients", "untouched")

    def question(name: str) -> Question:
        payload = kept.row("event_log", name)["payload"]
        return Question(
            organization_id=kept.names["organization"],
            conversation_id=payload["conversation_id"],
            contact_id=payload["contact_id"],
            channel_session_id=payload["channel_session_id"],
            events=(AskedEvent(kept.names[name], payload["inbound_message_id"], NOW_MS),),
            now_ms=NOW_MS,
            deadline_ms=NOW_MS,
        )

    async def ask() -> list[Any]:
        async with async_pool(kept.url, name="facts", min_size=0, max_size=2) as pool:
            return [*await FactReader(pool).read([question(name) for name in names])]

    facts = asyncio.run(ask())
    assert all(isinstance(one, Facts) and one.contact_found for one in facts)
    known = {name: dict(one.known) for name, one in zip(names, facts, strict=True)}
    assert known == {
        **{one: {kept.names[one]: kept.names[f"{one}: job"]} for one in names[:4]},
        "no longer clients": {kept.names["no longer clients"]: None},
        "untouched": {},
    }
    assert decide(question("untouched"), facts[-1], Rules()) == Enqueue(kept.names["untouched"])


def test_commands_tell_what_became_of_everything(kept: Kept, kafka: str, prefix: str, tmp_path: Path) -> None:
    settings = Settings(topic_prefix=prefix)
    ensure_topics(kafka, settings)
    bury(kept, kafka, settings)

    def story(name: str) -> tuple[list[str], list[str]]:
        """What happened, and what goes on."""
        found = why(kept.url, kafka, settings, kept.names[name])
        assert found.found and found.notes == []
        return [one.outcome for one in found.steps if one.outcome], [one.state for one in found.now]

    for name, told_of_it in STORIES.items():
        assert story(name) == told_of_it, name
    for also in ("message", "contact", "job"):
        assert story(f"held: {also}") == STORIES["held"], also
    listed = {job.id: job.now(NOW_MS).state for job in job_rows(kept.url, Which(), 100)}
    fates = {name: now[-1] for name, (_, now) in STORIES.items() if f"{name}: job" in kept.names}
    links = {kept.names["sent link"]: "done", kept.names["later link"]: "waiting"}
    assert listed == links | {kept.names[f"{name}: job"]: now for name, now in fates.items()}

    yard = Graveyard(kept.url, kafka, settings, tmp_path, kept.names["organization"])
    (letter,) = yard.json("dlq", "ls", "--list")["newest"]
    assert (letter["event_id"], letter["state"]) == (kept.names["dead event"], "open")
    (closed,) = yard.json("dlq", "show", kept.names["dropped event"])
    assert (closed["state"], closed["reason"], closed["attempt"]) == ("dropped", "contact_missing", 5)
    assert yard.json("dlq", "requeue", "--all", "--dry-run")["goes"] == {SOURCE: 1}


def bury(kept: Kept, kafka: str, settings: Settings) -> None:
    """Put the release's letters into their partitions again; the topic has another name and id here."""
    topic, producer = settings.topic(DEAD), Producer({"bootstrap.servers": kafka, "log_level": 2})
    then, now = PREFIX.encode(), settings.topic_prefix.encode()
    for place, letter in kept.told["letters"]:
        headers = [(name, (raw(value) or b"").replace(then, now)) for name, value in letter["headers"]]
        producer.produce(topic, raw(letter["value"]), raw(letter["key"]), int(place), headers=headers)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 2})
    topic_id = str(admin.describe_topics(TopicCollection([topic]))[topic].result(10).topic_id)
    kept.rows("UPDATE rajada.closed_letters SET topic_id = %s, topic = %s", topic_id, topic)


def raw(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_a_token_of_the_release_lets_in(kept: Kept) -> None:
    token = read_token(kept.names["token"])
    assert token is not None
    with psycopg.connect(kept.url) as connection:
        found = connection.execute(load("tokens_find"), {"id": token.id}).fetchone()
    assert found is not None and str(found[0]) == kept.names["organization"]
    assert any(isinstance(one, bytes) and token.matches(one) for one in found)
