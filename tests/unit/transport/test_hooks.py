"""The transport hangs on private parts of exact versions: it is noticed when one of them changes."""

from __future__ import annotations

import inspect
import json
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from faust.tables.recovery import Recovery

from . import hooks

ROOT = Path(__file__).parents[3]


def test_the_versions_are_exact_and_installed():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pinned = dict(one.split("==") for one in wanted if "==" in one)
    for name in ("faust-streaming", "aiokafka", "mode-streaming"):
        assert version(name) == pinned[name]


@pytest.mark.thorough
def test_nothing_that_we_hook_has_changed():
    stored, now = json.loads(hooks.STORED.read_text()), hooks.hooks()
    changed = sorted(name for name in stored.keys() & now.keys() if stored[name] != now[name])
    assert not changed, f"read what changed, run the chaos series, then write {hooks.STORED.name} anew"
    assert stored.keys() == now.keys(), f"hooks came or went: write {hooks.STORED.name} anew"


def test_every_private_name_that_we_use_is_listed():
    assert hooks.private_names() == hooks.REACHED_INTO.keys()


def test_a_change_would_be_noticed(monkeypatch):
    assert hooks.digest(Recovery) != hooks.digest(Recovery.on_stop)
    monkeypatch.setattr(hooks, "COUNTED_ON", ())
    monkeypatch.setattr(hooks, "REACHED_INTO", {})
    assert len(hooks.hooks()) > 50


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(hooks.REACHED_INTO))
def test_whose_a_private_name_is(name):
    assert any(_mentions(owner, name) for owner in hooks.REACHED_INTO[name])


def _mentions(owner, name):
    return name in inspect.getsource(owner)
