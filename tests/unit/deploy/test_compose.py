"""The compose file says nothing that the code, the shipped files or compose itself would refuse."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from types import ModuleType
from typing import Any

import pytest
import yaml

from ops.embedded.jars import DEBEZIUM_VERSION, KAFKA_VERSION
from ops.embedded.kafka_config import properties
from ops.embedded.registry import VERSION as REGISTRY_VERSION
from settings import Settings
from tests import yaml_texts
from tests.servers import POSTGRES_IMAGE
from tests.unit.deploy.shipped import ROOT, cluster_variables, composed, ours, parse, setting_names

ALONE = composed()["services"]
CLUSTERED = composed(cluster_variables())["services"]
OURS = ours(ALONE)

IMAGES = {
    "postgres": 5432,
    "registry": 8080,
    "connect": 8083,
    "kafka-ui": 8080,
    "prometheus": 9090,
    "grafana": 3000,
}
"""Where the programs of others listen."""


def listens(name: str, service: dict[str, Any]) -> set[int]:
    """The ports that a service listens on, by its own words."""
    environment = service.get("environment") or {}
    found = {int(port) for port in re.findall(r"://:(\d+)", str(environment.get("KAFKA_LISTENERS", "")))}
    command = list(service.get("command") or ())
    if "--port" in command:
        found.add(int(command[command.index("--port") + 1]))
    if "RAJADA_METRICS_PORT" in environment:
        found.add(int(environment["RAJADA_METRICS_PORT"]))
    return found | ({IMAGES[name]} if name in IMAGES else set())


@pytest.fixture
def compose_spec() -> ModuleType:
    """The specification's own models; not imported above, since that takes a second."""
    import compose_spec

    return compose_spec


@pytest.mark.parametrize("services", [ALONE, CLUSTERED], ids=["one node", "cluster"])
def test_compose_takes_it(compose_spec: ModuleType, services: dict[str, Any]) -> None:
    whole = {**composed(), "services": services}
    text = yaml.safe_dump({name: value for name, value in whole.items() if not name.startswith("x-")})
    compose = compose_spec.PyCompose.from_yaml(text)
    assert set(compose.service_names()) == services.keys()


def test_compose_is_told_apart_from_what_is_none(compose_spec: ModuleType) -> None:
    broken = {"services": {"a": {"image": "a:1", "heathcheck": {}, "restart": "sometimes"}}}
    with pytest.raises(ValueError, match=r"services\.a"):
        compose_spec.PyCompose.from_yaml(yaml.safe_dump(broken))


@pytest.mark.parametrize("name", OURS)
def test_each_command_of_ours_is_one(name: str) -> None:
    parse(OURS[name]["command"])


@pytest.mark.parametrize("name", OURS)
def test_each_variable_of_ours_is_a_setting_and_each_value_is_taken(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for services in (ALONE, CLUSTERED):
        environment = {key: str(value) for key, value in (services[name].get("environment") or {}).items()}
        assert environment.keys() <= setting_names()
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        settings = Settings(_env_file=None)
        assert settings.least_in_sync == (2 if settings.replication_factor == 3 else 1)


def test_every_mounted_file_is_there() -> None:
    mounted = {
        volume.split(":")[0]
        for service in ALONE.values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    }
    assert mounted
    assert [path for path in sorted(mounted) if not (ROOT / path).exists()] == []


def test_every_named_volume_is_declared() -> None:
    named = {
        volume.split(":")[0]
        for service in ALONE.values()
        for volume in service.get("volumes", ())
        if not volume.startswith((".", "/"))
    }
    assert named == composed()["volumes"].keys()


@pytest.mark.parametrize("services", [ALONE, CLUSTERED], ids=["one node", "cluster"])
def test_whoever_is_named_listens_there(services: dict[str, Any]) -> None:
    ports = {name: listens(name, service) for name, service in services.items()}
    named: set[tuple[str, int]] = set()
    for service in services.values():
        for key, value in (service.get("environment") or {}).items():
            if "LISTENER" not in key:
                named |= {
                    (host, int(port))
                    for host, port in re.findall(r"([a-z][a-z0-9-]*):(\d{4,5})\b", str(value))
                }
    assert named
    assert [place for place in sorted(named) if place[1] not in ports.get(place[0], set())] == []


def test_ports_are_published_on_loopback_once_each_and_lead_to_who_listens() -> None:
    published = [
        (name, *port.split(":")) for name, service in ALONE.items() for port in service.get("ports", ())
    ]
    assert {one[1] for one in published} == {"127.0.0.1"}
    assert len({one[2] for one in published}) == len(published)
    assert [one for one in published if int(one[3]) not in listens(one[0], ALONE[one[0]])] == []


@pytest.mark.parametrize("name", [name for name, one in ALONE.items() if "healthcheck" in one])
def test_each_health_check_asks_a_port_that_is_listened_on(name: str) -> None:
    asked = re.findall(r"(?:localhost|127\.0\.0\.1):(\d+)", " ".join(ALONE[name]["healthcheck"]["test"]))
    assert {int(port) for port in asked} <= listens(name, ALONE[name])
    assert asked or name == "postgres"


def test_nobody_waits_for_what_can_not_be_waited_for() -> None:
    for name, service in ALONE.items():
        for other, how in (service.get("depends_on") or {}).items():
            once = str(ALONE[other].get("restart", "")).startswith("on-failure")
            assert once == (how["condition"] == "service_completed_successfully"), (name, other)
            assert once or "healthcheck" in ALONE[other], (name, other)


def test_what_runs_for_good_waits_for_what_is_prepared_once() -> None:
    for name in ("worker", "delays", "sink", "reconciler", "web"):
        assert ALONE[name]["depends_on"].keys() == {"topics", "migrate", "schemas"}


def test_kafka_connect_is_given_what_its_file_reads() -> None:
    text = (ROOT / "deploy/connect/worker.properties").read_text()
    read = set(re.findall(r"\$\{env:([A-Z_]+)\}", text))
    read -= {"NAME"}  # in its comment
    (allowed,) = re.findall(r"allowlist\.pattern=(\S+)", text)
    assert read | set(allowed.split("|")) <= ALONE["connect"]["environment"].keys()


def test_prometheus_looks_where_our_services_are_and_grafana_where_prometheus_is() -> None:
    (scraped,) = yaml_texts.read((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    (found,) = scraped["dns_sd_configs"]
    assert {"worker", "delays", "sink", "reconciler", "web"} == set(found["names"]) - {"relay"}
    assert {
        one["environment"].get("RAJADA_METRICS_PORT") for name, one in OURS.items() if name != "engine"
    } == {found["port"]}
    (sources,) = (ROOT / "deploy/grafana/provisioning/datasources").glob("*.yml")
    (source,) = yaml_texts.read(sources.read_text())["datasources"]
    name, port = source["url"].removeprefix("http://").split(":")
    assert int(port) in listens(name, ALONE[name])
    (provider,) = (ROOT / "deploy/grafana/provisioning/dashboards").glob("*.yml")
    path = yaml_texts.read(provider.read_text())["providers"][0]["options"]["path"]
    assert f"./deploy/grafana/dashboards:{path}:ro" in ALONE["grafana"]["volumes"]


def test_versions_are_those_that_the_tests_run() -> None:
    assert ALONE["postgres"]["image"] == POSTGRES_IMAGE
    assert {
        one["image"] for name, one in ALONE.items() if name.startswith("kafka-") and name != "kafka-ui"
    } == {f"apache/kafka:{KAFKA_VERSION}"}
    assert ALONE["registry"]["image"].endswith(f":{REGISTRY_VERSION}")
    connect = (ROOT / "deploy/image/connect.Dockerfile").read_text()
    assert f"apache/kafka:{KAFKA_VERSION}\n" in connect and f"connect:{DEBEZIUM_VERSION} " in connect


def test_every_image_is_pinned() -> None:
    for service in ALONE.values():
        name, _, tag = service["image"].rpartition(":")
        assert name and tag not in ("", "latest") and any(letter.isdigit() for letter in tag)


@pytest.mark.parametrize(("services", "nodes"), [(ALONE, 1), (CLUSTERED, 3)], ids=["one node", "cluster"])
def test_a_broker_is_set_as_the_one_that_tests_run(services: dict[str, Any], nodes: int) -> None:
    text = properties(1, 2, ROOT, controllers=range(nodes) if nodes > 1 else ())
    tested = dict(line.split("=", 1) for line in text.splitlines())
    environment = services["kafka-1"]["environment"]
    shipped = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in environment.items()
        if name.startswith("KAFKA_")
    }
    shared = shipped.keys() & tested.keys() - {"listeners", "advertised.listeners", "log.dirs"}
    places = {"listener.security.protocol.map", "controller.quorum.bootstrap.servers"}
    assert len(shared) >= 12
    assert {name: shipped[name] for name in shared - places} == {
        name: tested[name] for name in shared - places
    }


# -- our image


def test_the_image_gets_every_package_and_nothing_else() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    wanted = [one.rstrip("*") for one in setup["packages"]["find"]["include"]]
    wanted += [f"{one}.py" for one in setup["py-modules"]]
    assert [one for one in wanted if not any(fnmatch(one, kept_one) for kept_one in kept)] == []
    assert not any(one.startswith(("tests", "bench", ".")) for one in kept)


def test_the_image_runs_as_nobody_in_particular_and_without_rights() -> None:
    text = (ROOT / "deploy/image/Dockerfile").read_text()
    assert "USER 10001:10001" in text and text.count("\nFROM ") == 2
    (python,) = re.findall(r"^ARG PYTHON=(\d+\.\d+)\.", text, re.M)
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert needs == f">={python}", "the one that is tested"
    for service in OURS.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]


@pytest.mark.thorough
def test_commands_do_without_what_the_image_leaves_out() -> None:
    (left_out,) = re.findall(r"pip uninstall -y (.+)", (ROOT / "deploy/image/Dockerfile").read_text())
    modules = [name.replace("-", "_") for name in left_out.split()]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({modules}));"
        "import ops.doctor.visit, sinks.outcomes, streams.delays.process, web.process, streams.app, "
        "db.migrate, ops.commands.connector, ops.registered, streams.reconcile"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
