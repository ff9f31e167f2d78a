"""docs/cut-over.md, step by step and with its own statements, under load: nothing lost, nothing doubled.

A CRM's database with its polling drain (killed in the middle) and its workers; Rajada takes over; the drain
takes over again; Rajada returns.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psycopg
import pytest

import status
from ops.clinic import Clinic, Connection, Message
from tests.command_line import run_rajada
from tests.e2e.processes import Processes
from tests.e2e.stand_ins.processes import ROOT, StandIn, make_tables
from tests.e2e.waiting import until, value
from tests.integration.db.crm import make_existing_crm

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

CONTACTS = 60
WINDOW_MS = 400
REAP_MS = 6_000
PAGE = (ROOT / "docs" / "cut-over.md").read_text()


def statement(name: str) -> str:
    """The statement of the page whose comment begins so."""
    found = re.findall(rf"```sql\n\s*-- {re.escape(name)}\n(.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1, f"the page has {len(found)} statements named {name!r}"
    return str(found[0]).strip().rstrip(";")


@dataclass
class Installation:
    """A CRM with its programs, and Rajada beside it."""

    url: str
    folder: Path
    connection: Connection
    ours: Processes
    run_by: Literal["lanes", "table"]
    drains: list[StandIn] = field(default_factory=list)
    workers: list[StandIn] = field(default_factory=list)

    def drain_on(self) -> StandIn:
        self.drains.append(StandIn("drain", self.url, "agent-engine", self.folder / "drain.log"))
        return self.drains[-1]

    def workers_on(self) -> None:
        self.workers = [
            StandIn("job_worker", self.url, f"crm-{n}", self.folder / f"crm-{n}.log", takes_s=0.01, batch=8)
            for n in (1, 2)
        ]

    def workers_off(self) -> None:
        for worker in self.workers:
            worker.stop()

    def count(self, query: str, *parameters: object) -> int:
        return int(str(value(self.connection, query, *parameters)))

    def execute(self, name: str) -> int:
        """Run a statement of the page; how many rows it changed."""
        return self.connection.execute(statement(name)).rowcount  # type: ignore[arg-type]

    def none(self, name: str) -> bool:
        """Whether a question of the page finds nothing."""
        return self.connection.execute(statement(name)).fetchall() == []  # type: ignore[arg-type]

    def rajada(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of ours."""
        return run_rajada(*arguments, env=self.ours.environment)

    def doctor(self) -> dict[str, tuple[str, str]]:
        """Check → worst level and what was found."""
        told = self.rajada("doctor", "--json")
        report = json.loads(told.stdout)
        assert told.returncode == (10 if any(one["level"] == "fail" for one in report["checks"]) else 0)
        order = ("ok", "skip", "warn", "fail")
        worst: dict[str, tuple[str, str]] = {}
        for one in sorted(report["checks"], key=lambda one: order.index(one["level"])):
            worst[one["check"]] = (one["level"], one["found"])
        return worst

    def failures(self) -> dict[str, str]:
        return {check: found for check, (level, found) in self.doctor().items() if level == "fail"}

    def waits_for(self) -> str:
        """What the worker says it waits for; empty when it doesn't."""
        said = status.read(self.ours.status, "worker")
        return said.reason if said is not None and said.state == "waiting" else ""

    def caught_up(self, reader: str) -> bool:
        return ", 0 records to go" in self.doctor()[reader][1]

    def well(self) -> bool:
        """No check fails, and the sink is near the end: while customers write, some are always to go."""
        told = self.doctor()
        (to_go,) = re.findall(r", ([\d,]+) records? to go", told["sink"][1])
        return int(to_go.replace(",", "")) < 50 and not any(level == "fail" for level, _ in told.values())


@pytest.fixture(params=["table", "lanes"])
def crm(
    request: pytest.FixtureRequest, empty_database: str, kafka: str, prefix: str, tmp_path: Path
) -> Iterator[Installation]:
    """The CRM's own tables and nothing of ours."""
    make_existing_crm(empty_database)
    make_tables(empty_database)
    settings = {
        "RAJADA_JOBS_RUN_BY": request.param,
        "EVENT_REAP_MS": str(REAP_MS),
        "RAJADA_SWEEP_EVERY_S": "1",
    }
    ours = Processes(tmp_path, kafka, empty_database, prefix, **settings)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        made = Installation(empty_database, tmp_path, connection, ours, request.param)
        try:
            yield made
        finally:
            for stand_in in [*made.drains, *made.workers]:
                stand_in.kill()
            ours.stop()


@pytest.fixture
def load(crm: Installation) -> Iterator[Callable[[], None]]:
    """Customers write all the time; calling it ends that."""
    clinic = Clinic.found(crm.connection, debounce_ms=WINDOW_MS)
    patients = clinic.register(crm.connection, [f"p{n}" for n in range(CONTACTS)])
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(crm.url, autocommit=True) as connection:
            number = 0
            while not stop.wait(0.02):
                clinic.write(connection, [Message(patients[number % CONTACTS])] * (1 + number % 3))
                number += 1

    thread = threading.Thread(target=write)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join()

    yield end
    end()


def test_every_event_is_answered_once_through_cut_overs_there_and_back(
    crm: Installation, load: Callable[[], None]
) -> None:
    drain = crm.drain_on()
    crm.workers_on()
    until(lambda: crm.count("SELECT count(*) FROM crm_answers") > 20)
    before(crm)
    leave_one_behind(crm)
    to_rajada(crm, drain, kill=True)
    time.sleep(4)
    drain = back_to_the_drain(crm)
    time.sleep(3)
    to_rajada(crm, drain, kill=False)
    time.sleep(3)
    load()
    until(lambda: crm.count("SELECT count(*) FROM event_log WHERE status <> 'done'") == 0, seconds=60)
    if crm.run_by == "table":
        unfinished = "SELECT count(*) FROM job_queue WHERE status <> 'done'"
        until(lambda: crm.count(unfinished) == 0, seconds=60)
    time.sleep(1.5)  # a second answer would come late
    audit(crm)


# -- the steps, as the page has them


def before(crm: Installation) -> None:
    looked = crm.rajada("migrate", "--dry-run")
    assert looked.returncode == 0 and "Nothing was changed." in looked.stdout
    unasked = crm.rajada("migrate")
    assert unasked.returncode == 2 and "give --yes" in unasked.stderr
    assert not crm.connection.execute("SELECT to_regnamespace('rajada')").fetchone()[0]  # type: ignore[index]
    migrated = crm.rajada("migrate", "--yes")
    assert migrated.returncode == 0 and "an existing CRM's database" in migrated.stdout, migrated.stderr
    assert crm.rajada("topics", "ensure").returncode == 0
    busy(crm, events=400)  # a look is of one moment, and between two events a drain leaves nothing to see
    until(lambda: crm.failures().keys() == {"other consumers"}, seconds=180, told=crm.doctor)
    told = crm.doctor()
    assert {check for check, (level, _) in told.items() if level == "warn"} >= {"slot", "worker", "sink"}


def busy(crm: Installation, *, events: int) -> None:
    """So many events at once: the drain has them in hand for a while (5 ms each, at least)."""
    with crm.connection.transaction():
        clinic = Clinic.found(crm.connection, debounce_ms=WINDOW_MS)
        patients = clinic.register(crm.connection, [f"at once {n}" for n in range(events)])
        clinic.write(crm.connection, [Message(patient) for patient in patients])


def leave_one_behind(crm: Installation) -> None:
    """An event that a drain took before there was a slot, and never finished: nobody publishes it."""
    with crm.connection.transaction():
        clinic = Clinic.found(crm.connection, debounce_ms=WINDOW_MS)
        (written,) = clinic.write(
            crm.connection, [Message(*clinic.register(crm.connection, ["left behind"]))]
        )
        crm.connection.execute(
            "UPDATE event_log SET status = 'processing', consumed_by = '{agent-engine}' WHERE id = %s",
            [written.event_id],
        )


def to_rajada(crm: Installation, drain: StandIn, *, kill: bool) -> None:
    crm.ours.start("relay", "sink")
    told = crm.doctor()
    assert told["slot"][0] == told["sink"][0] == "ok"
    # against the page: too early. It waits, and says for what
    crm.ours.spawn("worker")
    until(lambda: "another consumer is at work" in crm.waits_for())
    assert "docs/cut-over.md" in crm.waits_for()
    until(lambda: "other consumers" in crm.failures(), every=0.2)
    time.sleep(1.5)
    if crm.run_by == "lanes":
        crm.ours.kill("worker", signal.SIGTERM)

    if kill:
        busy(crm, events=40)
        until(
            lambda: crm.count("SELECT count(*) FROM event_log WHERE status = 'processing'") > 5, every=0.001
        )
        drain.kill()
        assert crm.count("SELECT count(*) FROM event_log WHERE status = 'processing'") > 0
        time.sleep(1)
        if crm.run_by == "table":
            assert "`processing` by agent-engine (another process of our name)" in crm.waits_for()
    else:
        drain.stop()
    if crm.run_by == "table":  # the other one has patience
        assert (crm.execute("left by the drain") > 0) == kill
        assert crm.execute("left by the drain") == 0
    if crm.run_by == "lanes":
        until(lambda: crm.none("jobs of the drain that are not finished"), seconds=60)
        crm.workers_off()
        crm.ours.spawn("worker")
    crm.ours.wait_ready("worker")
    until(crm.well, seconds=120, every=0.5, told=crm.doctor)
    assert "another_consumer_is_at_work" not in crm.ours.log("worker").read_text()


def back_to_the_drain(crm: Installation) -> StandIn:
    open_windows = "SELECT count(*) FROM event_log WHERE status = 'pending'"
    until(lambda: crm.count(open_windows) > 0)
    crm.ours.kill("worker", signal.SIGTERM)
    until(lambda: crm.caught_up("sink"), every=0.5)
    crm.ours.kill("sink", signal.SIGTERM)
    crm.ours.kill("relay", signal.SIGTERM)
    if crm.run_by == "lanes":
        crm.workers_on()
    return crm.drain_on()


# -- what came of it

HOMES = """
CREATE TEMPORARY TABLE homes AS
SELECT e.id AS event_id, h.job_id, h.ours
FROM event_log e
LEFT JOIN LATERAL (
    SELECT j.id AS job_id, j.outcome_seq IS NOT NULL AS ours
    FROM job_queue j
    WHERE (j.outcome_seq IS NOT NULL AND j.payload -> 'event_ids' ? e.id::text)
       OR (j.outcome_seq IS NULL AND j.source_event_id = e.id)
    UNION ALL
    SELECT r.job_id, false FROM crm_rides r WHERE r.event_id = e.id
) h ON true
"""


def audit(crm: Installation) -> None:
    connection = crm.connection
    connection.execute(HOMES)
    doubled = "SELECT count(*) FROM (SELECT event_id FROM homes GROUP BY 1 HAVING count(*) > 1) twice"
    assert crm.count(doubled) == 0, "no event is in two jobs"
    # a window that closed late finds a newer message, whose own event answers
    homeless = """
        SELECT count(*) FROM homes h JOIN event_log e ON e.id = h.event_id
        WHERE h.job_id IS NULL AND e.outcome IS DISTINCT FROM 'superseded_by_newer_inbound'
    """
    assert crm.count(homeless) == 0, "no event is lost"
    unanswered = """
        SELECT count(*) FROM (
            SELECT DISTINCT ON (m.conversation_id) m.id
            FROM messages m ORDER BY m.conversation_id, m.sent_at DESC, m.created_at DESC, m.id DESC
        ) newest JOIN event_log e ON e.entity_id = newest.id JOIN homes h ON h.event_id = e.id
        WHERE h.job_id IS NULL
    """
    assert crm.count(unanswered) == 0, "every conversation's newest message has a job"
    by_whom = dict(connection.execute("SELECT ours, count(*) FROM homes GROUP BY 1").fetchall())
    assert by_whom[True] > 100 and by_whom[False] > 100, f"both had their part: {by_whom}"
    twice = "SELECT count(*) FROM (SELECT event_id FROM crm_answers GROUP BY 1 HAVING count(*) > 1) a"
    assert crm.count(twice) == 0, "no job ran twice to its end"
    if crm.run_by == "table":
        never = (
            "SELECT count(*) FROM job_queue j WHERE NOT EXISTS (SELECT FROM crm_answers WHERE job_id = j.id)"
        )
        assert crm.count(never) == 0, "every job ran"
