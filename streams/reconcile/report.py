"""What a run has done: counted as it goes, kept in the database, shown by `--history` (pure)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """The counts of one run; grows while it goes on."""

    reserved: int = 0
    """Instances that it had a lease on."""
    moved: Counter[str] = field(default_factory=Counter)
    """Moves that were made, by reason."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reserved but not moved, by reason: left alone, or its token or state had changed meanwhile."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Instances in a state that we don't know, by state; nobody touched them."""
    opened: int = 0
    """Notifications."""
    resolved: int = 0

    def counts(self) -> dict[str, int]:
        """The numbers by their columns."""
        return {
            "reserved": self.reserved,
            "moved": self.moved.total(),
            "skipped": self.skipped.total(),
            "opened": self.opened,
            "resolved": self.resolved,
        }

    def facts(self) -> str:
        """The details as JSON: only what is there."""
        told: Mapping[str, Mapping[str, int]] = {
            "moved": self.moved,
            "skipped": self.skipped,
            "unknown": self.unknown,
        }
        return json.dumps({name: dict(sorted(values.items())) for name, values in told.items() if values})
