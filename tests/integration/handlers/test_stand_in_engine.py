"""The stand-in engine: holds requests to the contract, does as it is told, remembers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from ops.engine.journal import Asked
from ops.engine.scenario import Scenario, scenario_from_json, scenario_from_query
from ops.engine.serving import EngineBeside
from ops.errors import WrongScenario
from streams.trace_context import own_traceparent
from tests.integration.handlers.turns import turn
from tests.unit.builders import uid


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False) as client:
        yield client


def post(http: httpx.Client, url: str, name: str = "j1", **changes: Any) -> httpx.Response:
    """A turn POSTed as the contract says; `changes` of its fields, headers in capitals (None: left out)."""
    job = turn(name)
    fields: dict[str, object] = {
        "job_id": job.id, "kind": job.kind, "attempt": 1, "payload": json.loads(job.payload),
    }  # fmt: skip
    headers: dict[str, str | None] = {
        "Content-Type": "application/json",
        "Idempotency-Key": job.id,
        "traceparent": own_traceparent(job.id),
    }
    for key, value in changes.items():
        if key[0].isupper() or key == "traceparent":
            headers[key.replace("_", "-")] = value
        else:
            fields[key] = value
    sent = {key: value for key, value in headers.items() if value is not None}
    return http.post(url, content=json.dumps(fields), headers=sent)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"attempt": 0}, 422),
        ({"attempt": "1"}, 422),
        ({"kind": "other"}, 422),
        ({"payload": {}}, 422),
        ({"job_id": "J1"}, 422),
        ({"Idempotency_Key": None}, 400),
        ({"Idempotency_Key": "another"}, 400),
        ({"traceparent": None}, 400),
        ({"traceparent": "00-0-0-0"}, 400),
        ({"Content_Type": "text/plain"}, 415),
    ],
)
def test_a_request_outside_the_contract_is_refused(
    http: httpx.Client, engine: EngineBeside, changes: dict[str, Any], status: int
) -> None:
    assert post(http, engine.url, **changes).status_code == status
    assert engine.requests() == [] and engine.effects() == {}


def test_the_query_of_the_url_is_a_scenario(http: httpx.Client, engine: EngineBeside) -> None:
    url = engine.url + "?mode=fail&times=1&status=500&retry_after=3"
    first, second = post(http, url), post(http, url)
    assert (first.status_code, first.headers["retry-after"], second.status_code) == (500, "3", 200)
    assert post(http, engine.url + "?mode=tired").status_code == 422


def test_a_jobs_scenario_goes_before_its_contacts_before_the_urls_before_everybodys(
    http: httpx.Client, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="credit"))
    assert post(http, engine.url, "a").status_code == 402
    assert post(http, engine.url + "?mode=rate", "b").status_code == 429
    engine.treat(Scenario(mode="conflict"), uid("ana"))
    assert post(http, engine.url + "?mode=rate", "c").status_code == 409
    engine.treat(Scenario(mode="cancel"), uid("d"))
    assert post(http, engine.url + "?mode=rate", "d").json() == {"decision": "cancelled"}
    engine.forget()
    assert post(http, engine.url, "e").json()["decision"] == "done"


def test_scenarios_requests_and_effects_over_http(http: httpx.Client, engine: EngineBeside) -> None:
    base = engine.url.removesuffix("/turns")
    put = http.put(f"{base}/scenarios/{uid('ana')}", content=b'{"mode": "fail", "times": 1}')
    assert put.status_code == 204
    assert http.put(f"{base}/scenarios/default", content=b'{"mod": "fail"}').status_code == 422
    post(http, engine.url), post(http, engine.url)
    rows = http.get(f"{base}/requests", params={"job_id": uid("j1")}).json()
    assert [(row["of_job"], row["status"], row["effect"]) for row in rows] == [
        (1, 503, False),
        (2, 200, True),
    ]
    assert http.get(f"{base}/requests", params={"contact_id": uid("bia")}).json() == []
    assert http.get(f"{base}/effects").json() == {uid("j1"): 1}
    assert http.delete(f"{base}/requests").status_code == 204
    assert http.get(f"{base}/requests").json() == []


def test_an_engine_that_forgets_keys_does_everything_anew(http: httpx.Client) -> None:
    with EngineBeside(honours_keys=False) as engine:
        for _ in range(3):
            assert post(http, engine.url).status_code == 200
        assert engine.effects() == {uid("j1"): 3}


def test_a_request_that_waits_can_be_seen(http: httpx.Client, engine: EngineBeside) -> None:
    engine.treat(Scenario(mode="hang"))
    with pytest.raises(httpx.ReadTimeout):
        http.post(
            engine.url,
            content=json.dumps({"job_id": uid("j1"), "kind": "inbound_turn", "attempt": 1,
                                "payload": json.loads(turn().payload)}),
            headers={"Content-Type": "application/json", "Idempotency-Key": uid("j1"),
                     "traceparent": own_traceparent(uid("j1"))},
            timeout=0.2,
        )  # fmt: skip
    (seen,) = engine.requests()
    assert (seen.mode, seen.status, seen.ended_ms) == ("hang", None, None)


def test_every_request_is_a_line_at_its_begin_and_at_its_end(http: httpx.Client, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "requests.jsonl"
    with EngineBeside(Scenario(mode="fail", times=1), log=file) as engine:
        post(http, engine.url), post(http, engine.url, attempt=2)
    lines = [msgspec.json.decode(line, type=Asked) for line in file.read_text().splitlines()]
    assert [(one.n, one.attempt, one.status, one.effect) for one in lines] == [
        (1, 1, None, False), (1, 1, 503, False), (2, 2, None, False), (2, 2, 200, True),
    ]  # fmt: skip
    assert all(one.idempotency_key == uid("j1") and one.at_ms for one in lines)


@pytest.mark.parametrize("fields", [{"mode": "tired"}, {"delay_ms": "-1"}, {"speed": "1"}, {"status": "99"}])
def test_a_wrong_scenario_says_what_there_is(fields: dict[str, str]) -> None:
    with pytest.raises(WrongScenario, match="modes are ok, fail, rate, hang"):
        scenario_from_query(fields)
    with pytest.raises(WrongScenario):
        scenario_from_json(b"[" * 10_000)


def test_the_command_serves_until_it_is_told_to_stop(http: httpx.Client, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "engine", "--port", "0", "--mode", "fail", "--times", "1",
         "--log", str(log)],
        stdout=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        assert [post(http, url).status_code for _ in range(2)] == [503, 200]
    finally:
        process.terminate()
    started = time.monotonic()
    assert process.wait(10) == 0 and time.monotonic() - started < 5
    process.stdout.close()
    assert len(log.read_text().splitlines()) == 4


def test_a_wrong_mode_or_a_taken_port_is_told(engine: EngineBeside) -> None:
    port = engine.url.split(":")[2].split("/")[0]
    for arguments, code, words in [
        (["--mode", "tired"], 2, "tired"),
        (["--port", port], 6, "Choose another --port"),
    ]:
        done = subprocess.run(
            [sys.executable, "-m", "ops.cli", "engine", *arguments], capture_output=True, text=True,
            timeout=30, check=False, env={"PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert done.returncode == code and words in done.stderr, done.stderr
