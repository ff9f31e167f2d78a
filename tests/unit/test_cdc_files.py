"""The shipped files of Kafka Connect: filled for one installation, and what they must say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cdc.files import FILES, WORKER, WrongConnectorFile, connectors, filled, shipped, worker_environment
from ops.embedded.connect_config import replaced
from ops.errors import CannotRunHere
from settings import Settings

URL = "postgresql://ana:p%40ss@db.example:6432/crm?sslmode=require"


def made(**more: object) -> dict[str, dict[str, str]]:
    settings = Settings.model_validate({"topic_prefix": "t.", "slot": "one", **more})
    return {one.name: one.config for one in connectors(settings, URL)}


def test_each_event_type_has_its_connector_with_slot_and_publication_of_its_name() -> None:
    configs = made()
    assert set(configs) == {"one_dispatch", "one_group_links"}
    assert {config["transforms.route.replacement"] for config in configs.values()} == {
        f"t.{event_type}" for event_type in FILES.values()
    }
    for name, config in configs.items():
        assert config["slot.name"] == config["publication.name"] == config["topic.prefix"] == name
        assert f"slot = '{name}'" in config["heartbeat.action.query"]
        assert not any("${" in value for key, value in config.items() if key != "database.password")


def test_the_two_connectors_differ_in_names_alone() -> None:
    one, other = (shipped(file) for file in FILES)
    assert (
        one.replace("ai_agent.dispatch_requested", "group_link.dispatch_requested")
        .replace('_dispatch"', '_group_links"')
        .replace("_dispatch'", "_group_links'")
        .replace("_dispatch[", "_group_links[")
        == other
    )


def test_the_database_is_named_and_its_password_stays_with_kafka_connect() -> None:
    config = made()["one_dispatch"]
    assert [config[f"database.{part}"] for part in ("hostname", "port", "user", "dbname", "sslmode")] == [
        "db.example", "6432", "ana", "crm", "require"
    ]  # fmt: skip
    assert config["database.password"] == "${env:POSTGRES_PASSWORD}"
    assert "p@ss" not in json.dumps(made())
    assert worker_environment(Settings(), "k:9092", URL)["POSTGRES_PASSWORD"] == "p@ss"


@pytest.mark.parametrize(
    ("asked", "worker", "connector"), [(False, "disabled", "requested"), (True, "enabled", "required")]
)
def test_exactly_once_is_one_setting(asked: bool, worker: str, connector: str) -> None:
    settings = Settings(connect_exactly_once=asked)
    assert worker_environment(settings, "k:9092", URL)["CONNECT_EXACTLY_ONCE"] == worker
    assert {one.config["exactly.once.support"] for one in connectors(settings, URL)} == {connector}


def test_the_worker_reads_nothing_but_what_it_is_given() -> None:
    text = shipped(WORKER)
    named = set(worker_environment(Settings(), "k:9092", URL))
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    assert set(lines["config.providers.env.param.allowlist.pattern"].split("|")) == named
    read = {part.partition("}")[0] for line in lines.values() for part in line.split("${env:")[1:]}
    assert read <= named


def test_replaced_lines_stand_in_their_places_and_new_ones_at_the_end() -> None:
    text = replaced("# a=1\na=1\n\nb=2\n", {"a": "x", "c": "y"})
    assert text == "# a=1\na=x\n\nb=2\nc=y\n"


def test_debezium_may_log_in_as_somebody_else() -> None:
    own = "postgresql://rajada_debezium:other@primary/crm"
    config = made(connect_database_url=own)["one_dispatch"]
    assert [config[f"database.{part}"] for part in ("hostname", "user")] == ["primary", "rajada_debezium"]
    settings = Settings.model_validate({"connect_database_url": own})
    assert worker_environment(settings, "k:9092", URL)["POSTGRES_PASSWORD"] == "other"


@pytest.mark.parametrize("host", ["a,b", "%2Fvar%2Frun"])
def test_several_hosts_and_sockets_are_refused_with_the_way_out(host: str) -> None:
    with pytest.raises(WrongConnectorFile, match="primary"):
        connectors(Settings(), f"postgresql://{host}/crm")


def test_a_slot_too_long_for_postgres_is_refused() -> None:
    with pytest.raises(WrongConnectorFile, match="RAJADA_SLOT"):
        connectors(Settings(slot="s" * 52), URL)


def test_files_that_did_not_come_along_are_told_of(tmp_path: Path) -> None:
    with pytest.raises(CannotRunHere, match="--files"):
        connectors(Settings(), URL, tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "dispatch.json is no connector's file"),
        ('{"name": "a", "config": {"x": 1}}', "dispatch.json is no connector's file"),
        ('{"name": "a", "config": {"slot.name": "b"}}', "must be the same"),
        ('{"name": "${NOBODY}", "config": {}}', r"\$\{NOBODY\}"),
    ],
)
def test_a_wrong_file_is_told_by_name(tmp_path: Path, text: str, told: str) -> None:
    for file in FILES:
        (tmp_path / file).write_text(text)
    with pytest.raises(WrongConnectorFile, match=told):
        connectors(Settings(), URL, tmp_path)


@given(st.text())
def test_any_value_comes_whole_through_the_json(value: str) -> None:
    assume_text = value.encode("utf-8", "ignore").decode()
    assert json.loads(filled('{"a": "${A}-${env:A}"}', {"A": assume_text})) == {
        "a": f"{assume_text}-${{env:A}}"
    }
