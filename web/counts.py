"""What the service has answered since it started, for `rajada status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from telemetry import catalogue
from telemetry.readings import Reading, by_label


@dataclass(slots=True)
class Counts:
    """Answers by their class, and what they did."""

    requests: int = 0
    enqueued: int = 0
    known: int = 0
    """Enrolments that had their job already."""
    reminders: int = 0
    """Sent at once."""
    refused: int = 0
    """4xx."""
    failed: int = 0
    """5xx."""

    def answer(self, status: int) -> None:
        """An answer goes out."""
        self.requests += 1
        self.refused += 400 <= status < 500
        self.failed += status >= 500

    def readings(self) -> Iterator[Reading]:
        """As metrics."""
        well = self.requests - self.refused - self.failed
        answers = {"ok": well, "refused": self.refused, "failed": self.failed}
        yield from by_label(catalogue.REQUESTS, answers)
        ends = {"enqueued": self.enqueued, "known": self.known, "sent_at_once": self.reminders}
        yield from by_label(catalogue.GROUP_LINKS_ASKED, ends)

    def told(self) -> dict[str, int]:
        """As flat numbers."""
        return asdict(self)
