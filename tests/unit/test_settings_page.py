"""docs/settings.md and `rajada settings` tell every setting, from `settings.py` itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.cli import tree
from ops.settings_page import as_markdown, settings_told
from settings import Settings, get_settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/settings.md"
VARIABLE = re.compile(r"\bRAJADA_[A-Z0-9_]+\b")
OTHERS = {
    "RAJADA_CHROMIUM": "tests/browser/conftest.py",
    "RAJADA_SHOTS": "tests/browser/eyes.py",
    "RAJADA_DECISION_CASES": "tests/integration/test_decisions.py",
    "RAJADA_PEERS_PYTHON": "bench/peers/program.py",
    "RAJADA_IMAGE": "docker-compose.kafka.yml",
    "RAJADA_CONNECT_IMAGE": "docker-compose.kafka.yml",
    "RAJADA_HEARTBEAT_MS": "ops/cdc/files.py",
}
"""What is no setting of Rajada, and who reads it."""


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    """Settings are read anew, here and by whoever comes next."""
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


def test_the_page_is_what_the_code_says() -> None:
    assert as_markdown() + "\n" == PAGE.read_text(), "python -m ops.settings_page > docs/settings.md"


def test_every_page_and_manifest_names_variables_that_are_read() -> None:
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docker-compose.kafka.yml"]
    files += [one for folder in ("docs", "deploy") for one in sorted((ROOT / folder).rglob("*"))]
    read = [one for one in files if one.suffix in (".md", ".yml", ".yaml", ".json", ".toml")]
    named = {(name, one.name) for one in read for name in VARIABLE.findall(one.read_text())}
    elsewhere = {name for name, path in OTHERS.items() if name in (ROOT / path).read_text()}
    known = elsewhere | set(VARIABLE.findall(PAGE.read_text()))
    assert {(name, page) for name, page in named if name not in known} == set()
    assert len({name for name, _ in named}) > 50 and elsewhere == OTHERS.keys()


def test_every_setting_has_a_meaning_a_section_and_a_type() -> None:
    told = settings_told()
    assert [one.field for one in told] == list(Settings.model_fields)
    assert [one.field for one in told if not (one.meaning.endswith(".") and one.section and one.type)] == []


def test_every_length_of_time_and_size_has_its_unit() -> None:
    ends = ("_ms", "_s", "_mb", "_kb", "_days")
    assert [one.field for one in settings_told() if one.field.endswith(ends) and not one.unit] == []


def test_variables_are_those_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [
        one for one in settings_told() if one.type in ("whole number, ≥ 1", "number, > 0", "number, ≥ 0")
    ]
    assert len(numbers) > 10
    for one in numbers:
        monkeypatch.setenv(one.variable, "7")
    settings = Settings(_env_file=None, replication_factor=7)
    wrong = {one.variable for one in numbers if float(getattr(settings, one.field)) != 7.0}
    assert not wrong


def test_a_word_explains_and_a_secret_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENGINE_TOKEN", "s3cret")
    told = CliRunner().invoke(tree(), ["settings", "engine_token"]).output
    assert "AGENT_ENGINE_TOKEN = set (secret)" in told and "s3cret" not in told
    whole = json.loads(CliRunner().invoke(tree(), ["settings", "--json"]).output)
    (token,) = [one for one in whole if one["variable"] == "AGENT_ENGINE_TOKEN"]
    assert token["set"] and token["value"] == "set (secret)"


def test_a_word_that_is_in_no_name_is_told() -> None:
    outcome = CliRunner().invoke(tree(), ["settings", "nothing-like-it"])
    assert "No setting has 'nothing-like-it'" in str(outcome.exception)
