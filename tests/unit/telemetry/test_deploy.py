"""What Prometheus and Grafana are given asks only for what there is, and every alert has its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.cli import tree
from telemetry.catalogue import CATALOGUE, PROCESSES
from telemetry.distribution import Read
from telemetry.exhibit import Exhibit
from telemetry.readings import Reading, Summary
from tests import yaml_texts

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
RUNBOOKS = ROOT / "docs/runbooks"
GRAFANA = ROOT / "deploy/grafana"

KNOWN = {metric.name: metric for metric in CATALOGUE}
RULES: list[dict[str, Any]] = yaml_texts.read((PROMETHEUS / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "dashboards/rajada.json").read_text())


def asked(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of ours in an expression, each with the labels that it is asked by."""
    for name, _, labels in re.findall(r"\b(rajada_\w+)(\{([^}]*)\})?", expression):
        base = name if name in KNOWN else re.sub(r"_(bucket|count|sum)$", "", name)
        yield base, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))


def check(expression: str) -> None:
    found = list(asked(expression))
    for name, labels in found:
        assert name in KNOWN, f"{name} is not in the catalogue"
        assert labels <= set(KNOWN[name].labels), (name, labels)
        if re.search(rf"{name}_bucket", expression):
            assert KNOWN[name].kind == "histogram"
    by = {one for group in re.findall(r"\bby \(([^)]*)\)", expression) for one in re.split(r",\s*", group)}
    all_labels = {label for name, _ in found for label in KNOWN[name].labels}
    assert by <= all_labels | {"le", "instance"}, (by, expression)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_there_is_and_has_a_page(rule: dict[str, Any]) -> None:
    check(rule["expr"])
    assert "rajada" in rule["expr"]
    assert rule["labels"]["severity"] in ("warning", "critical")
    page = ROOT / rule["annotations"]["runbook"]
    assert page == RUNBOOKS / f"{rule['alert']}.md"
    text = page.read_text()
    assert text.startswith(f"# {rule['alert']}: ") and rule["expr"].strip() in text
    assert all(part in text for part in ("## What it means", "## Look at", "## Do")), "one page form for all"
    for found, _ in asked(text):
        assert found in KNOWN, found


def test_no_page_is_left_over_and_all_are_listed() -> None:
    names = {rule["alert"] for rule in RULES}
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"} == names
    assert set(re.findall(r"\[(Rajada\w+)\]\(\1\.md\)", (RUNBOOKS / "README.md").read_text())) == names
    for page in RUNBOOKS.glob("*.md"):
        assert set(re.findall(r"\bRajada[A-Z]\w+", page.read_text())) <= names, page


PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_there_is(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        check(target["expr"])
        assert re.search(r"\b(rajada|process)_", target["expr"])


def test_the_dashboard_has_each_panel_once_and_in_a_place_of_its_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) and DASHBOARD["uid"] and DASHBOARD["schemaVersion"]
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


def test_grafana_finds_its_files() -> None:
    for file in (GRAFANA / "provisioning").rglob("*.yml"):
        assert yaml_texts.read(file.read_text())["apiVersion"] == 1


def test_prometheus_scrapes_every_process() -> None:
    compose = yaml_texts.read((PROMETHEUS / "prometheus.yml").read_text())
    (job,) = compose["scrape_configs"]
    assert job["job_name"] == "rajada" and set(job["dns_sd_configs"][0]["names"]) == set(PROCESSES)
    local = yaml_texts.read((PROMETHEUS / "local.yml").read_text())
    (job,) = local["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"127.0.0.1:{9400 + n}" for n in range(len(PROCESSES))]
    assert all(one["rule_files"] == ["alerts.yml"] for one in (compose, local))


@pytest.fixture
def promtool() -> Callable[..., str]:
    """Prometheus' own check; returns what it says, and fails when it finds a fault."""
    path = shutil.which("promtool", path=f"{ROOT}/.tools/bin:{os.environ['PATH']}")
    if path is None:
        pytest.skip("no promtool here: `.ci/tools` brings Debian's, else it comes with Prometheus")

    def run(*arguments: str, given: str | None = None) -> str:
        done = subprocess.run(
            [path, *arguments], input=given, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_prometheus_itself_finds_no_fault_in_alerts_and_configurations(promtool: Callable[..., str]) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(PROMETHEUS / "alerts.yml"))
    assert "SUCCESS" in promtool("check", "config", str(PROMETHEUS / "local.yml"))
    promtool(
        "check", "config", "--syntax-only", str(PROMETHEUS / "prometheus.yml")
    )  # compose mounts the rules


def test_prometheus_itself_finds_no_fault_in_names_types_and_texts(promtool: Callable[..., str]) -> None:
    """Its linter knows the rules for names, base units and `_total`."""

    def read() -> Iterator[Reading]:
        values = {"histogram": Read((1.0,), (1, 0), 0.5), "summary": Summary(1, 0.5)}
        for metric in CATALOGUE:
            yield Reading(metric, values.get(metric.kind, 1.0), ("x",) * len(metric.labels))

    exhibit = Exhibit()
    exhibit.show(read)
    shown = exhibit.render().decode()
    assert all(metric.name in shown for metric in CATALOGUE)
    promtool("check", "metrics", given=shown)


def test_a_page_names_only_commands_and_options_that_there_are() -> None:
    root = tree()
    found = 0
    for page in RUNBOOKS.glob("*.md"):
        for line in re.findall(r"`rajada ([^`]+)`", page.read_text()):
            command, words = root, line.split()
            while words and hasattr(command, "commands"):
                assert words[0] in command.commands, (page.name, line)
                command = command.commands[words.pop(0)]
            options = {option for one in command.params for option in one.opts}
            assert {word for word in words if word.startswith("--")} <= options, (page.name, line)
            found += 1
    assert found > 30
