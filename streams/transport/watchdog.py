"""Notices what should move and stands still. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


class Watchdog(Generic[P]):
    """Remembers since when each thing stands still."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[P, tuple[int, float]] = {}

    def stuck(self, now: float, progress: Mapping[P, tuple[int, int]]) -> dict[P, float]:
        """What hasn't moved for `patience` seconds though there is something to do, and for how long.

        `progress`: how far each one is, and how much there is to do.
        """
        self._since = {
            p: self._since[p] if p in self._since and self._since[p][0] == at and left > 0 else (at, now)
            for p, (at, left) in progress.items()
        }
        return {p: now - since for p, (_, since) in self._since.items() if now - since >= self._patience}
