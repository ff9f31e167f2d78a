"""What `rajada up` runs, and what it hands to whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.embedded.folder import open_folder
from ops.endpoints import STAND_IN, WHATSAPP
from ops.stack import NO_ENGINE, Stack
from ops.supervision.units import Program, Unit
from settings import Settings

GIVEN = {"kafka_bootstrap_servers": "k:9092", "database_url": "postgresql://p/d"}


def stack(
    folder: Path,
    *,
    with_engine: bool = False,
    with_whatsapp: bool = False,
    servers_only: bool = False,
    **more: object,
) -> Stack:
    settings = Settings.model_validate({"agent_engine_url": None, **GIVEN, **more})
    return Stack(
        settings,
        open_folder(folder),
        with_engine=with_engine,
        with_whatsapp=with_whatsapp,
        servers_only=servers_only,
    )


def names(of: Stack) -> list[str]:
    return [unit.name for unit in of.units]


def test_every_process_of_the_pipeline_runs_and_no_engine_unless_asked_for(tmp_path: Path) -> None:
    assert names(stack(tmp_path))[-6:] == ["relay", "worker", "delays", "sink", "reconciler", "web"]
    assert STAND_IN not in names(stack(tmp_path))


def test_debezium_runs_in_the_relays_place(tmp_path: Path) -> None:
    made = stack(tmp_path, publisher="debezium")
    assert "relay" not in names(made) and {"connect", "connectors", "worker"} <= set(names(made))
    after = {unit.name: unit.after for unit in made.units}
    assert after["connectors"] == ("connect",) and {"migrations", "topics"} <= set(after["connect"])


def test_the_stand_in_keeps_its_port_and_the_processes_are_told_of_it(tmp_path: Path) -> None:
    first, second = (stack(tmp_path, with_engine=True, agent_engine_url="http://real/") for _ in range(2))
    (url, again) = ({unit.name: unit.listens() for unit in one.units}[STAND_IN] for one in (first, second))
    assert url == again and url.startswith("http://127.0.0.1:") and url.endswith("/turns")
    assert first._environment()["AGENT_ENGINE_URL"] == url, "the stand-in was asked for: no real turn is made"


def test_the_stand_in_whatsapp_is_what_all_processes_and_the_reconciler_ask(tmp_path: Path) -> None:
    assert WHATSAPP not in names(stack(tmp_path))
    made = stack(tmp_path, with_whatsapp=True, whatsapp_url="http://real/", whatsapp_access_token="real")
    url = {unit.name: unit.listens() for unit in made.units}[WHATSAPP]
    told = made._environment()
    assert told["WHATSAPP_API_URL"] == url and told["WHATSAPP_PROBE_URL"] == f"{url}/instances/{{id}}"
    assert told["WHATSAPP_ACCESS_TOKEN"] != "real", "no real token goes to a stand-in"


def test_without_it_the_processes_know_what_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_ENGINE_URL", "http://real/")
    assert stack(tmp_path)._environment()["AGENT_ENGINE_URL"] == "http://real/"


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ({}, NO_ENGINE),
        ({"agent_engine_url": "http://real/"}, ""),
        ({"with_engine": True}, ""),
        ({"jobs_run_by": "table"}, ""),
        ({"servers_only": True}, ""),
    ],
)
def test_whoever_starts_it_without_an_engine_is_told_that_turns_are_held(
    tmp_path: Path, more: dict[str, bool], hint: str
) -> None:
    assert stack(tmp_path, **more).hint == hint


def test_with_a_registry_the_schemas_are_registered_before_any_process_that_writes(tmp_path: Path) -> None:
    assert "schemas" not in names(stack(tmp_path))
    made = {unit.name: unit for unit in stack(tmp_path, schema_registry_url="http://registry/").units}
    assert made["schemas"].after == ()
    for name in ("relay", "worker", "delays", "sink"):
        assert "schemas" in made[name].after
    assert "schemas" not in made["web"].after, "it takes requests without"


def test_whoever_is_told_of_the_embedded_kafka_starts_after_its_port_is_claimed(tmp_path: Path) -> None:
    made = stack(tmp_path, kafka_bootstrap_servers=None)
    units = {unit.name: unit for unit in made.units}
    told = [
        unit for unit in made.units if isinstance(unit, Program) and unit.name not in (STAND_IN, "training")
    ]
    assert {"web", "worker", "sink"} <= {unit.name for unit in told}
    for unit in told:
        assert "ports" in _all_before(units, unit.name), unit.name
    units["ports"].prepare()  # nothing else: the jars may take a minute to come
    claimed = made.kafka
    assert made._environment()["KAFKA_BOOTSTRAP_SERVERS"] == claimed and not claimed.endswith(":0")
    units["ports"].prepare()
    assert made.kafka == claimed, "who was told is told no lie"


def test_a_given_kafka_has_no_port_to_claim(tmp_path: Path) -> None:
    assert "ports" not in names(stack(tmp_path))


def _all_before(units: dict[str, Unit], name: str) -> set[str]:
    found: set[str] = set()
    for one in units[name].after:
        found |= {one} | _all_before(units, one)
    return found
