"""Disk, schemas and settings, as the doctor reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.doctor.machine import GB, disk, disk_verdict, odd_settings, schemas, unknown_settings
from settings import Settings


@pytest.mark.parametrize(("free", "level"), [(50 * GB, "ok"), (4 * GB, "warn"), (GB // 4, "fail")])
def test_little_room_is_told_before_there_is_none(free: int, level: str) -> None:
    assert disk_verdict(free, Path("/data")).level == level


def test_the_disk_of_given_servers_is_not_ours() -> None:
    given = Settings(kafka_bootstrap_servers="k:1", database_url="postgresql://x")
    assert "not ours" in disk(given).found
    one = Settings(kafka_bootstrap_servers=None, database_url="postgresql://x", home=Path("/nowhere/at/all"))
    assert "free for /" in disk(one).found


def test_the_schemas_as_they_are_can_be_read() -> None:
    assert schemas().level == "ok"


def test_misspelt_settings_are_named() -> None:
    known = ["RAJADA_JOBS_RUN_BY", "rajada_home", "RAJADA_STATUS_DIR", "KAFKA_BOOTSTRAP_SERVERS", "PATH"]
    assert unknown_settings(known) == []
    (verdict,) = unknown_settings([*known, "RAJADA_JOB_RUN_BY"])
    assert verdict.level == "warn" and "RAJADA_JOB_RUN_BY" in verdict.found


def test_every_setting_is_known_by_the_name_it_is_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        name: str(field.validation_alias or f"RAJADA_{name}".upper())
        for name, field in Settings.model_fields.items()
    }
    assert unknown_settings(names.values()) == []
    monkeypatch.setenv(names["jobs_run_by"], "table")
    assert Settings().jobs_run_by == "table"


def test_the_defaults_are_nothing_odd() -> None:
    assert odd_settings(Settings()) == []


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"event_max_age_s": 60}, "EVENT_MAX_AGE"),
        ({"event_reap_ms": 100_000}, "EVENT_REAP_MS"),
        ({"session_timeout_s": 1.5}, "RAJADA_SESSION_TIMEOUT_S"),
        ({"window_mode": "sliding", "max_wait_ms": 5_000}, "RAJADA_MAX_WAIT_MS"),
        ({"replication_factor": 3, "min_insync_replicas": 3}, "RAJADA_MIN_INSYNC_REPLICAS"),
    ],
)
def test_values_that_are_hardly_meant_are_told(changed: dict[str, object], word: str) -> None:
    verdicts = odd_settings(Settings(**changed))  # type: ignore[arg-type]
    assert [word in verdict.found for verdict in verdicts] == [True]
    assert all(verdict.level == "warn" and verdict.advice for verdict in verdicts)
