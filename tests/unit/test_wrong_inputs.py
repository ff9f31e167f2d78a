"""What somebody mistypes at three in the morning is told with what is right, without asking a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from ops.asking import asking
from ops.cli import tree
from ops.errors import OpsError, exit_code_of
from settings import RajadaError, WrongSetting, get_settings

TYPED = [
    ("stauts", "Did you mean 'status'"),
    ("migrate --dryrun", "--dry-run"),
    ("why 123", "'123' is not a UUID"),
    ("dlq requeue", "--reason"),
    ("dlq requeue --since yesterday", "2h, 3d"),
    ("dlq drop dead/0/0", "say why"),
    ("dlq show dead/x/0", "dead/3/17"),
    ("dlq ls --header foo", "NAME=VALUE"),
    ("dlq ls --by colour", "reason, kind"),
    ("jobs ls --status penidng", "pending, running"),
    ("jobs cancel 0b9f8c1e", "not a UUID"),
    ("group-links ls --status lost", "pending, held"),
    ("replay nosuch --from-time 2h", "ai_agent.dispatch_requested"),
    ("replay dispatch.jobs --from-time 2h", "dlq requeue"),
    ("replay ai_agent.dispatch_requested", "--from-time"),
    ("pause --organization abc", "not a UUID"),
    ("forget", "--phone"),
    ("produce missing.jsonl", "can't be read"),
    ("engine --mode flaky", "ok, fail, rate"),
    ("whatsapp stand-in --mode flaky", "ok, error, drop"),
    ("alerts --open --all", "give one of both"),
    ("sweep --backfill soon", "2h, 3d"),
    ("settings --markdown --json", "neither"),
]


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Settings are read anew; no server runs."""
    monkeypatch.setenv("RAJADA_HOME", str(tmp_path / "home"))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.mark.thorough
def test_a_mistake_is_told_with_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for line, told in TYPED:
        outcome = CliRunner().invoke(tree(), line.split())
        assert outcome.exit_code == 2, f"{line}: {outcome.output}{outcome.exception}"
        assert told in outcome.output, f"{line}: {outcome.output}"


@pytest.mark.parametrize(
    ("line", "told", "code"),
    [
        ("jobs ls", "rajada up", 4),
        ("topics check", "KAFKA_BOOTSTRAP_SERVERS", 4),
        ("logs worker", "no log", 4),
        ("topics acls nobody", "relay, worker", 3),
        ("roles nobody", "relay, worker", 3),
        ("settings nix", "rajada settings", 12),
    ],
)
def test_what_is_not_there_is_told_with_what_to_do(line: str, told: str, code: int) -> None:
    error = CliRunner().invoke(tree(), line.split()).exception
    assert isinstance(error, RajadaError) and exit_code_of(error) == code
    assert told in str(error)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("RAJADA_PARTITIONS", "many", "integer"),
        ("RAJADA_MIN_INSYNC_REPLICAS", "3", "above RAJADA_REPLICATION_FACTOR (1)"),
        ("KAFKA_SECURITY_PROTOCOL", "TLS", "'SASL_SSL'"),
        ("RAJADA_ORGANIZATION_WEIGHTS", "twice", "must be JSON"),
        ("RAJADA_LOG_LEVEL", "loud", "'WARNING'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(
    variable: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(WrongSetting) as refused:
        get_settings()
    assert str(refused.value).startswith(f"{variable}: ") and told in str(refused.value)
    assert "Value error" not in str(refused.value)


def test_an_address_that_is_none_is_told_as_such() -> None:
    with pytest.raises(OpsError, match="DATABASE_URL is no address"), asking("nonsense"):
        psycopg.connect("nonsense")
