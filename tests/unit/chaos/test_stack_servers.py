"""Servers of a run are started again when they end, whatever hinders a start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.stack.servers import Servers
from ops.errors import StartFailed


class Hindered:
    """A server that has ended and can't be started at its first try."""

    def __init__(self, error: Exception | None) -> None:
        self.pid: int | None = None
        self._error = error

    def prepare(self) -> None:
        pass

    def spawn(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.pid = 1


def servers(nodes: list[Hindered]) -> Servers:
    unused: Any = None
    cluster: Any = SimpleNamespace(nodes=nodes)
    postgres: Any = Hindered(None)
    return Servers(
        Path(), cluster, unused, postgres, unused, unused, unused, unused, unused, unused
    )  # fmt: skip


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), StartFailed("it ended")])
def test_a_start_that_fails_is_tried_again_later_and_hinders_no_other(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 11, 600 s: a broker ended on its full disk, and its pid could not be noted there."""
    now = 100.0
    monkeypatch.setattr("chaos.stack.servers.time.monotonic", lambda: now)
    broken, well = Hindered(error), Hindered(None)
    found = servers([broken, well])
    found.keep_up()
    assert (broken.pid, well.pid, found.postgres.pid) == (None, 1, 1)
    found.keep_up()
    assert broken.pid is None, "it is left alone for a while"
    now += 60
    found.keep_up()
    assert broken.pid == 1
