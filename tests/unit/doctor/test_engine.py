"""The agent engine, as the doctor sees it."""

from __future__ import annotations

import socket

import pytest

from ops.doctor.engine import agent_engine, engine_verdict
from settings import Settings


def test_without_an_address_turns_are_held() -> None:
    verdict = agent_engine(Settings.model_validate({"agent_engine_url": None}))
    assert verdict.level == "warn" and "held" in verdict.found


def test_nobody_is_asked_when_the_crm_runs_its_jobs() -> None:
    settings = Settings.model_validate({"agent_engine_url": "http://127.0.0.1:9/", "jobs_run_by": "table"})
    assert agent_engine(settings).level == "ok"


def test_an_engine_that_is_not_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    verdict = agent_engine(Settings.model_validate({"agent_engine_url": f"http://127.0.0.1:{port}/"}))
    assert verdict.level == "fail" and "connection_refused" in verdict.found


@pytest.mark.parametrize(
    ("status", "level"),
    [(200, "ok"), (404, "ok"), (405, "ok"), (401, "fail"), (403, "fail"), (302, "warn"), (502, "warn")],
)
def test_what_an_answer_to_a_get_means(status: int, level: str) -> None:
    assert engine_verdict(status).level == level
