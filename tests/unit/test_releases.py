"""What earlier releases wrote into topics and changelogs is read by this code, and says the same."""

from __future__ import annotations

import base64
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.codec import decode_command, decode_event, decode_job, decode_outcome
from streams.contact import decode_contact
from streams.contact_jobs import decode_jobs
from streams.events import Event, read_event

RELEASES = Path(__file__).parents[1] / "fixtures" / "releases"
READERS: dict[str, Callable[[bytes], Any]] = {
    "job": decode_job,
    "outcome": decode_outcome,
    "command": decode_command,
    "event, Avro": decode_event,
    "event, JSON": lambda value: json.loads(value),
    "contact of the changelog": decode_contact,
    "jobs of the changelog": decode_jobs,
}
WRITTEN = [(folder.name, kind) for folder in sorted(RELEASES.glob("*.*.*")) for kind in READERS]


def written(release: str, kind: str) -> tuple[bytes, Any]:
    """The bytes of a record, and what they said to their own release."""
    found = json.loads((RELEASES / release / "records.json").read_text())[kind]
    return base64.b64decode(found["value"]), found["says"]


def lacking(then: Any, now: Any, where: str = "") -> list[str]:
    """What was said then and isn't now; what is new may stand beside it."""
    if isinstance(then, dict) and isinstance(now, dict):
        return [one for name in then for one in lacking(then[name], now.get(name), f"{where}.{name}")]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = zip(then, now, strict=True)
        return [one for place, (a, b) in enumerate(pairs) for one in lacking(a, b, f"{where}[{place}]")]
    return [] if then == now else [f"{where}: {then!r} became {now!r}"]


@pytest.mark.parametrize(("release", "kind"), WRITTEN)
def test_what_a_release_wrote_is_read_and_says_the_same(release: str, kind: str) -> None:
    value, then = written(release, kind)
    now = json.loads(msgspec.json.encode(msgspec.to_builtins(READERS[kind](value))))
    assert lacking(then, now) == []


@pytest.mark.parametrize("release", sorted({release for release, _ in WRITTEN}))
@pytest.mark.parametrize("kind", ["event, Avro", "event, JSON"])
def test_an_event_of_a_release_is_still_an_event(release: str, kind: str) -> None:
    value, _ = written(release, kind)
    assert isinstance(read_event(value, [], 1, 1_700_000_000_000, 7), Event)


def test_each_release_has_left_records_and_rows_the_newest_too() -> None:
    releases = {folder.name: folder for folder in RELEASES.glob("*.*.*")}
    version = tomllib.loads((RELEASES.parents[2] / "pyproject.toml").read_text())["project"]["version"]
    assert version in releases, "CONTRIBUTING.md says how"
    left = {name: {one.name for one in folder.iterdir()} for name, folder in releases.items()}
    assert left == {name: {"records.json", "rows.jsonl"} for name in releases}


def test_something_that_is_lost_would_be_found() -> None:
    assert lacking({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}], "c": 4}) == [".a[1].b: 2 became 3"]
    assert lacking({"a": 1}, {}) and WRITTEN
