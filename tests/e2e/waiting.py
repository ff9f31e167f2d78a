"""Waiting for what the system does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable

from ops.clinic import Connection


def until(
    condition: Callable[[], object],
    seconds: float = 60.0,
    every: float = 0.02,
    told: Callable[[], object] = lambda: "",
) -> None:
    """Wait until the condition holds; else `told` says what there was instead."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen in time {told()}"
        time.sleep(every)


def value(connection: Connection, query: str, *parameters: object) -> object:
    """The single value that a query gives; None without a row."""
    row = connection.execute(query, parameters).fetchone()  # type: ignore[arg-type]
    return None if row is None else row[0]
