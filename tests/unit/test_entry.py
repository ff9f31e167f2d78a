"""`faust -A streams worker` by hand: what is missing is told in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from settings import MissingServer, Settings
from streams.entry import COMMAND_LINE, built

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.parametrize("app", ["streams", "streams.reconcile"])
def test_without_servers_it_says_what_to_set(app: str, tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if k not in {"KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL"}}
    ended = subprocess.run(
        [sys.executable, "-m", "faust", "-A", app, "worker", "--without-web"],
        capture_output=True,
        text=True,
        env={**kept, "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        timeout=60,
    )
    assert ended.returncode == 3
    assert ended.stderr.startswith("Error: No ") and "or run everything with `rajada up`" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_others_get_the_error_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, COMMAND_LINE, raising=False)  # another test may have loaded it

    def build(settings: Settings) -> None:
        raise MissingServer("none")

    with pytest.raises(MissingServer):
        built(build)
