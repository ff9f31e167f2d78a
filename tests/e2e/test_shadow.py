"""docs/shadow.md, step by step: a shadow beside a polling drain, what it finds and leaves alone; the switch.

The drain and the CRM's workers are real processes on the CRM's own tables; the shadow has a role that may do
nothing but SELECT.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from db import roles
from ops.clinic import Clinic, Connection, Message, Patient
from ops.engine.serving import EngineBeside
from tests.command_line import RAJADA
from tests.e2e.processes import Processes
from tests.e2e.stand_ins.processes import StandIn, make_tables
from tests.e2e.test_cut_over import statement
from tests.e2e.waiting import until, value
from tests.integration.db.crm import make_existing_crm

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

WINDOW_MS = 1_500
SLOW_MS = 9_000
"""Of the number where a job of theirs must have run before our window ends."""
THEIR_WINDOW_S = 8
"""Long enough for all bubbles of a burst to ride, however busy the machine is."""
SOURCE = "ai_agent.dispatch_requested"


@dataclass
class Installation:
    """A CRM with its programs, and Rajada's beside them."""

    url: str
    folder: Path
    connection: Connection
    ours: Processes
    stand_ins: list[StandIn] = field(default_factory=list)

    def program(self, name: str, who: str, **options: object) -> StandIn:
        log = self.folder / f"{who}-{len(self.stand_ins)}.log"
        self.stand_ins.append(StandIn(name, self.url, who, log, **options))
        return self.stand_ins[-1]

    def drain_on(self, window_s: float, heeds: int) -> StandIn:
        return self.program("drain", "old-drain", window_s=window_s, heeds=heeds)

    def workers_on(self, **options: object) -> StandIn:
        return self.program("job_worker", "crm", takes_s=0.01, batch=8, **options)

    def rajada(self, *arguments: str, code: int = 0) -> str:
        told = self.ours.rajada(*arguments)
        assert told.returncode == code, f"{arguments}: {told.returncode}\n{told.stdout}\n{told.stderr}"
        return told.stdout

    def report(self, since: float) -> dict[str, Any]:
        """What the report says of the time since then, Unix seconds."""
        told = self.ours.rajada("shadow", "report", "--json", "--since", _iso(since))
        found: dict[str, Any] = json.loads(told.stdout)
        if found["windows"]:
            assert told.returncode == (10 if found["differences"] else 0), told.stderr
        return found

    def settled(self, since: float, windows: int) -> dict[str, Any]:
        """The report once so many windows are in it and the drain has finished with all of them."""
        found: dict[str, Any] = {}

        def all_there() -> bool:
            found.update(self.report(since))
            return found["windows"] >= windows and "not_yet" not in found["not_comparable"]

        until(all_there, seconds=90, every=0.5, told=lambda: found)
        assert found["windows"] == windows, _told(found)
        return found


def _told(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=1)


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}+00:00"


@pytest.fixture
def role(empty_database: str) -> Iterator[str]:
    """The name of a role that may do nothing but read; it gets its rights after the migration."""
    prefix = f"r{empty_database.rpartition('/')[2]}_"
    yield prefix
    with psycopg.connect(empty_database, autocommit=True) as connection:
        name = sql.Identifier(f"{prefix}shadow")
        connection.execute(sql.SQL("DROP OWNED BY {}").format(name))
        connection.execute(sql.SQL("DROP ROLE {}").format(name))


@pytest.fixture
def crm(
    empty_database: str, kafka: str, prefix: str, tmp_path: Path, engine: EngineBeside
) -> Iterator[Installation]:
    make_existing_crm(empty_database)
    make_tables(empty_database)
    ours = Processes(
        tmp_path,
        kafka,
        empty_database,
        prefix,
        RAJADA_JOBS_RUN_BY="table",
        RAJADA_SHADOW_REASON="why",
        AGENT_ENGINE_URL=engine.url,
    )
    with psycopg.connect(empty_database, autocommit=True) as connection:
        made = Installation(empty_database, tmp_path, connection, ours)
        try:
            yield made
        finally:
            for stand_in in made.stand_ins:
                stand_in.kill()
            ours.stop()


def write(crm: Installation, clinic: Clinic, patients: list[Patient], bubbles: int) -> None:
    """Each writes so many bubbles, in one moment: a busy machine must not pull them apart."""
    clinic.write(crm.connection, [Message(one) for one in patients for _ in range(bubbles)])


def has_person(crm: Installation, patients: list[Patient]) -> None:
    ids = [one.conversation_id for one in patients]
    crm.connection.execute(
        "UPDATE conversations SET assignee_kind = 'user' WHERE id = ANY (%s::uuid[])", [ids]
    )


def records(kafka: str, start: str, but: str) -> dict[str, int]:
    """Topic → its records, of those whose names begin so."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "counting", "log_level": 2})
    try:
        found = {}
        for name, topic in consumer.list_topics(timeout=10).topics.items():
            if name.startswith(start) and not name.startswith(but):
                ends = [
                    consumer.get_watermark_offsets(TopicPartition(name, partition), 10)[1]
                    for partition in topic.partitions
                ]
                found[name] = sum(ends)
        return found
    finally:
        consumer.close()


def test_a_shadow_finds_the_differences_and_touches_nothing_and_the_team_switches(
    crm: Installation, role: str, kafka: str, prefix: str, engine: EngineBeside
) -> None:
    # -- before
    clinic = Clinic.found(crm.connection, debounce_ms=WINDOW_MS)
    patients = clinic.register(crm.connection, [f"p{n}" for n in range(40)])
    slow = clinic.another_number(crm.connection, debounce_ms=SLOW_MS)
    slow_patients = slow.register(crm.connection, [f"s{n}" for n in range(4)])
    drain, workers = crm.drain_on(THEIR_WINDOW_S, heeds=1), crm.workers_on()
    crm.rajada("migrate", "--yes")
    crm.rajada("topics", "ensure")
    roles.apply(crm.connection, ["shadow"], role)
    may = (
        "SELECT count(*) FROM information_schema.role_table_grants"
        " WHERE grantee = %s AND privilege_type <> 'SELECT'"
    )
    assert value(crm.connection, may, f"{role}shadow") == 0
    crm.ours.start("relay")
    write(crm, clinic, patients[:5], 1)  # from before the shadow: none of its business
    # and not only its events: the bubbles to come would ride on a job that still waits for its window
    unfinished = "SELECT count(*) FROM job_queue WHERE status <> 'done'"
    until(lambda: value(crm.connection, unfinished) == 0 and _all_done(crm), seconds=60)

    # -- the shadow on, under a role that may only read
    database = conninfo_to_dict(crm.url)
    login = crm.url.replace(f"//{database['user']}", f"//{role}shadow", 1)
    assert login != crm.url
    crm.ours.commands["shadow"] = [*RAJADA, "shadow", "run"]
    crm.ours.own["shadow"] = crm.ours.own["operator"] = {"DATABASE_URL": login}
    crm.ours.spawn("shadow")
    until(lambda: "shadow ready" in crm.ours.log("shadow").read_text(), told=crm.ours.log("shadow").read_text)
    assert "relay" not in crm.ours.log("shadow").read_text(), "somebody publishes already"
    before = records(kafka, prefix, f"{prefix}shadow.")
    rows_before = _changes(crm.connection)

    # -- agreeing traffic
    agreeing = time.time()
    has_person(crm, patients[20:25])
    write(crm, clinic, patients[:25], 3)
    found = crm.settled(agreeing, 25)
    assert found["same"] == {"same_job": 20, "same_stop": 5} and not found["not_comparable"], _told(found)
    assert found["differences"] == {} and found["events"] == 75 and found["behind"] == 0

    # -- a drain that answers each bubble apart
    drain.stop()
    drain = crm.drain_on(0, heeds=1)
    apart = time.time()
    write(crm, clinic, patients[25:31], 3)
    found = crm.settled(apart, 6)
    assert found["differences"] == {"split": 6} and not found["not_comparable"], _told(found)
    assert found["examples"]["split"][0]["theirs"] == "3 jobs"

    # -- a drain that doesn't heed that a person has the conversation
    drain.stop()
    drain = crm.drain_on(THEIR_WINDOW_S, heeds=0)
    heedless = time.time()
    write(crm, clinic, patients[20:25], 2)
    found = crm.settled(heedless, 5)
    assert found["differences"] == {"only_theirs": 5} and not found["not_comparable"], _told(found)
    assert found["by_reason"]["only_theirs"] == {"not_eligible:human_owner": 5}
    (example, *_) = found["examples"]["only_theirs"]
    assert example["first_look"] == example["ours"] == "not_eligible:human_owner"
    assert example["jobs"] and len(example["events"]) == 2
    told = crm.rajada("shadow", "report", "--since", _iso(heedless), code=10)
    assert "only they answer" in told and "Look at" in told and example["events"][0] in told

    # -- a job of theirs that changes what we look at: nobody can tell
    drain.stop()
    workers.stop()
    drain, workers = crm.drain_on(0, heeds=1), crm.workers_on(hands_over=1)
    changed = time.time()
    write(crm, slow, slow_patients, 1)
    found = crm.settled(changed, 4)
    assert found["not_comparable"] == {"their_job_ran": 4} and not found["differences"], found
    example = found["examples"]["their_job_ran"][0]
    assert (example["first_look"], example["ours"]) == ("job", "not_eligible:human_owner")

    # -- what it has touched
    after = records(kafka, prefix, f"{prefix}shadow.")
    assert {name for name in after if after[name] != before[name]} == {f"{prefix}{SOURCE}"}
    assert not engine.requests(), "no job was run"
    logins = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND application_name = 'rajada-shadow'"
    assert int(str(value(crm.connection, logins, f"{role}shadow"))) > 0
    ours = "SELECT count(*) FROM job_queue WHERE outcome_seq IS NOT NULL"
    assert value(crm.connection, ours) == 0
    moved = {name for name, now in _changes(crm.connection).items() if now != rows_before.get(name)}
    assert moved <= {
        "public.event_log", "public.job_queue", "public.conversations", "public.messages",
        "public.crm_rides", "public.crm_runs", "public.crm_answers", "rajada.relay",
    }, moved  # fmt: skip

    # -- a shadow that runs is not cleaned away; then the switch
    refused = crm.ours.rajada("shadow", "clean", "--yes")
    assert refused.returncode == 5 and "A shadow runs" in refused.stderr
    assert crm.ours.kill("shadow", signal.SIGTERM) == 0
    to_rajada(crm, clinic, drain, patients)
    crm.ours.own.pop("operator")
    told = crm.rajada("shadow", "clean", "--yes")
    assert f"topic {prefix}shadow.dispatch.outcomes" in told and "The slot" in told and "stays" in told
    until(lambda: not records(kafka, f"{prefix}shadow.", "-"))
    crm.rajada("shadow", "report", code=12)
    assert "has left nothing" in crm.rajada("shadow", "clean", "--yes")


def to_rajada(crm: Installation, clinic: Clinic, drain: StandIn, patients: list[Patient]) -> None:
    """The steps of docs/cut-over.md."""
    crm.ours.start("sink")
    drain.stop()
    crm.connection.execute(statement("left by the drain"))  # type: ignore[arg-type]
    crm.ours.start("worker")
    write(crm, clinic, patients[31:36], 3)
    until(lambda: _all_done(crm))
    ours = "SELECT count(*) FROM job_queue WHERE outcome_seq IS NOT NULL"
    assert value(crm.connection, ours) == 5, "a burst, a job"


def _all_done(crm: Installation) -> bool:
    return value(crm.connection, "SELECT count(*) FROM event_log WHERE status <> 'done'") == 0


def _changes(connection: Connection) -> dict[str, int]:
    """Table → rows that were ever inserted, changed or deleted in it."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    return {
        str(name): int(str(count))
        for name, count in connection.execute(
            "SELECT schemaname || '.' || relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables"
        ).fetchall()
    }
