"""Notices partitions on which work was delivered and nothing gets finished. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


class Watchdog(Generic[P]):
    """Remembers since when each partition stands still."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[P, tuple[int, float]] = {}

    def stuck(self, now: float, progress: Mapping[P, tuple[int, int]]) -> dict[P, float]:
        """Partitions that haven't moved for `patience` seconds, and for how long; each is told once a stop.

        `progress`: where everything below is finished, and how much was delivered and isn't committed.
        """
        self._since = {p: seen for p, seen in self._since.items() if p in progress}
        found = {}
        for partition, (base, lag) in progress.items():
            before, since = self._since.get(partition, (base, now))
            if lag == 0 or base != before:
                self._since[partition] = base, now
            elif now - since >= self._patience:
                found[partition] = now - since
                self._since[partition] = base, float("inf")
            else:
                self._since[partition] = before, since
        return found
