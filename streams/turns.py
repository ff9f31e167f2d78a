"""A contact's turn to run its next job, as the lanes and the rates of sessions know it (pure; in ms)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RETRY_YIELDS_MS: Final = 30_000
"""A retry goes behind those who come up to so long after it, for each attempt that was spent on it: what
fails again and again takes the slots that others leave."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A contact whose next job may start."""

    key: bytes
    partition: int
    organization_id: str
    job_id: str
    kind: str
    session_id: str | None
    priority: int
    not_before_ms: int = 0
    attempt: int = 0
    """Attempts spent so far."""

    def place(self, now_ms: int) -> int:
        """Its place among those of the same priority, by when it came."""
        return max(now_ms, self.not_before_ms) + RETRY_YIELDS_MS * self.attempt


Entry = tuple[int, int, int, Turn]
"""(priority, place, arrival, turn): in this order they are taken."""
