"""Two workers, retries, kills and hand-overs: every job once in effect, every row at its end."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from ops.clinic import Clinic, Connection, Message
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

CONTACTS = 120
MESSAGES = 3
SEED = 7

OPEN = "SELECT count(*) FROM job_queue WHERE status NOT IN ('done', 'failed', 'dead')"
EVENTS_OPEN = "SELECT count(*) FROM event_log WHERE status <> 'done'"


@pytest.mark.alone
def test_kills_and_rebalances_while_jobs_run_lose_nothing_and_double_no_effect(
    processes: MakeProcesses,
    connection: Connection,
    engine: EngineBeside,
    tmp_path: Path,
    kafka: str,
    database: str,
    prefix: str,
) -> None:
    settings = {
        "AGENT_ENGINE_URL": engine.url,
        "RAJADA_PERSON_SPACING_MS": "0",
        "RAJADA_STOP_GRACE_S": "0.5",
        "RAJADA_HANDOVER_GRACE_S": "0.2",
        "EXECUTOR_CONCURRENCY": "16",
    }
    first = processes(**settings)
    second = Processes(tmp_path / "second", kafka, database, prefix, **settings)
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{n}" for n in range(CONTACTS)])
    engine.treat(Scenario(delay_ms=150))
    for patient in patients[::5]:
        engine.treat(Scenario(mode="rate", retry_after="1", times=2, delay_ms=50), patient.contact_id)
    dropped = {patient.contact_id for patient in patients[1::10]}
    for contact_id in dropped:
        engine.treat(Scenario(mode="drop", times=1), contact_id)
    try:
        first.start("relay", "worker", "sink", "delays")
        second.start("worker")

        def write() -> None:
            for _ in range(MESSAGES):
                for patient in patients:
                    clinic.write(connection, [Message(patient)])
                time.sleep(1.5)

        writer = threading.Thread(target=write)
        writer.start()
        dice = random.Random(SEED)
        for _ in range(6):
            time.sleep(dice.uniform(0.8, 2.5))
            whom = dice.choice([first, second])
            name = dice.choice(["worker", "worker", "delays"]) if whom is first else "worker"
            whom.kill(name, dice.choice([signal.SIGKILL, signal.SIGTERM]))
            whom.spawn(name)
        writer.join()

        def settled() -> bool:
            first.ensure_alive()
            second.ensure_alive()
            return value(connection, EVENTS_OPEN) == 0 and value(connection, OPEN) == 0

        try:
            until(settled, 150, every=0.5)
        except AssertionError as error:
            left = connection.execute(
                "SELECT status, last_error, attempts, count(*) FROM job_queue GROUP BY 1, 2, 3"
            ).fetchall()
            events = connection.execute(
                "SELECT status, outcome, count(*) FROM event_log GROUP BY 1, 2"
            ).fetchall()
            raise AssertionError(f"{left} {events}") from error
    finally:
        second.stop()
    rows = connection.execute("SELECT id::text, status, attempts FROM job_queue").fetchall()
    effects = engine.effects()
    assert all(status == "done" for _, status, _ in rows), Counter(status for _, status, _ in rows)
    superseded = {
        str(job_id)
        for (job_id,) in connection.execute(
            "SELECT job_id FROM rajada.trace WHERE outcome LIKE 'merged:%' OR outcome LIKE 'covered_by:%'"
        )
    }
    ran = {job_id for job_id, _, _ in rows} - superseded
    assert ran <= effects.keys(), "every job that ended by itself had its effect"
    assert all(count == 1 for count in effects.values()), "no effect twice"
    # every event's job is one that ran
    stray = value(
        connection,
        "SELECT count(*) FROM event_log WHERE outcome = 'job' AND job_id::text <> ALL (%s)",
        sorted(effects),
    )
    assert stray == 0
    # an attempt number is called twice only when a graceful stop gave it back, or its connection broke
    calls = Counter((one.job_id, one.attempt) for one in engine.requests() if one.contact_id not in dropped)
    handed_back = value(connection, "SELECT count(*) FROM rajada.trace WHERE outcome = 'handed_back'")
    assert sum(count - 1 for count in calls.values()) <= handed_back
    together = [(one.at_ms, one.ended_ms or one.at_ms, one.contact_id) for one in engine.requests()]
    by_contact: dict[str, int] = {}
    for at_ms, ended_ms, contact_id in sorted(together):
        assert at_ms >= by_contact.get(contact_id, 0) or handed_back, "one job of a contact at a time"
        by_contact[contact_id] = max(by_contact.get(contact_id, 0), ended_ms)
