"""How many replicas must have a record, and that no setting makes topics that nothing can be written to."""

from __future__ import annotations

import pytest

from settings import Settings, WrongSetting, get_settings
from streams.topics import TOPICS


@pytest.mark.parametrize(("replicas", "least"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_with_three_replicas_two_must_have_a_record(replicas: int, least: int) -> None:
    settings = Settings(replication_factor=replicas)
    assert {topic.config(settings)["min.insync.replicas"] for topic in TOPICS} == {str(least)}


def test_it_can_be_set() -> None:
    assert Settings(replication_factor=3, min_insync_replicas=3).least_in_sync == 3


def test_more_than_there_are_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAJADA_MIN_INSYNC_REPLICAS", "2")
    get_settings.cache_clear()
    try:
        with pytest.raises(WrongSetting, match=r"MIN_INSYNC_REPLICAS.*above RAJADA_REPLICATION_FACTOR"):
            get_settings()
    finally:
        get_settings.cache_clear()
