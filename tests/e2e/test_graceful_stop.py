"""SIGTERM under load: every process leaves in order, with exit code 0, and nothing is lost."""

from __future__ import annotations

import signal
import time

import pytest

from ops.clinic import Clinic, Connection, Message
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import NAMES
from tests.e2e.waiting import until, value

STOP_S = 8.0
"""Five seconds are the bar on a machine of its own."""


@pytest.mark.alone
def test_a_stop_with_work_in_flight_is_clean_and_loses_nothing(  # BR-47
    processes: MakeProcesses, connection: Connection
) -> None:
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=400)
    patients = clinic.register(connection, [f"p{number}" for number in range(300)])
    written = 0
    for number in range(60):
        clinic.write(connection, [Message(patient) for patient in patients[number % 3 :: 3]])
        written += len(patients[number % 3 :: 3])
        if number in (20, 40):
            for name in NAMES:
                began = time.monotonic()
                assert running.kill(name, signal.SIGTERM) == 0, running.log(name).read_text()[-2_000:]
                assert time.monotonic() - began < STOP_S
            running.start()
        time.sleep(0.05)
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == written)
    twice = """
        SELECT count(*) FROM (
            SELECT e FROM job_queue, jsonb_array_elements_text(payload->'event_ids') e
            GROUP BY e HAVING count(*) > 1
        ) again
    """
    assert value(connection, twice) == 0
