"""Probes: a restart is asked for only where it would help, and every no says what to do."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

import status
from settings import Settings
from telemetry import catalogue, pulse
from telemetry.readings import Reading
from telemetry.serving import Port, serve
from telemetry.vitals import SILENT_S, Trouble, Vitals, of_reason, trouble


def test_a_loop_that_hangs_is_not_live_and_one_that_waits_for_a_server_is() -> None:
    silences = {"main": 1.0}
    vitals = Vitals("worker", lambda: [trouble("database", "away")], silences=lambda: silences)
    assert vitals.troubles("livez") == []
    silences["main"] = SILENT_S + 1
    (found,) = vitals.troubles("livez")
    assert found.part == "loop" and "61 s" in found.what and "restart" in found.what_to_do


def test_started_stays_started_though_it_is_not_ready_any_more() -> None:
    waits: list[Trouble] = [trouble("recovery", "reading")]
    vitals = Vitals("worker", lambda: waits)
    assert vitals.troubles("startupz") and vitals.troubles("readyz")
    waits.clear()
    assert not vitals.troubles("readyz")
    waits.append(trouble("group", "rebalance"))
    assert vitals.troubles("readyz") and not vitals.troubles("startupz")


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("Postgres: connection refused", "database"),
        ("the database lacks our tables: `rajada migrate` makes them", "database"),
        ("Kafka acknowledges nothing", "broker"),
        ("no topic dispatch.outcomes", "broker"),
        ("another system works on our events", "work"),
    ],
)
def test_what_a_process_waits_for_is_told_by_its_words(reason: str, part: str) -> None:
    found = of_reason(reason)
    assert (found.part, found.what) == (part, reason) and found.what_to_do


@pytest.fixture
def port(unused_tcp_port: int) -> Iterator[Port]:
    made = serve(
        Settings(metrics_port=unused_tcp_port), "vitals-test", failing, lambda: [Reading(catalogue.SWEPT, 3)]
    )
    assert made is not None
    yield made
    made.close()
    pulse.forget()


def failing() -> list[Reading]:
    raise ValueError("a defect in what is only told")


def ask(port: Port, path: str) -> httpx.Response:
    return httpx.get(f"{port.url}/{path}", trust_env=False)


def test_the_port_answers_probes_by_what_the_process_reports(port: Port) -> None:
    assert ask(port, "readyz").json()["troubles"][0]["what"] == "it is just starting"
    status.report("vitals-test", "ready")
    assert ask(port, "readyz").json() == {"process": "vitals-test", "ok": True, "troubles": []}
    status.report("vitals-test", "waiting", "Postgres is away")
    answer = ask(port, "readyz?verbose")
    assert answer.status_code == 503
    assert answer.json()["troubles"][0]["part"] == "database"
    assert ask(port, "startupz").status_code == 200 and ask(port, "livez").status_code == 200
    assert httpx.head(f"{port.url}/livez", trust_env=False).status_code == 200


def test_a_source_that_fails_hides_no_other_and_a_value_of_a_label_can_not_break_the_text(port: Port) -> None:
    port.exhibit.show(lambda: [Reading(catalogue.SLOT_LAG, 1, ('a"\n\\',))])
    text = ask(port, "metrics").text
    assert "rajada_swept_events_total 3.0" in text
    assert 'slot="a\\"\\n\\\\"' in text


def test_a_port_that_is_taken_stops_nobody(port: Port) -> None:
    taken = int(port.url.rpartition(":")[2])
    assert serve(Settings(metrics_port=taken), "another") is None


def test_by_itself_nothing_is_served() -> None:
    assert serve(Settings(), "worker") is None and serve(Settings(metrics_port=0), "worker") is None
