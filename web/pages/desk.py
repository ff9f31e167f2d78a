"""What the live page asks for: one protocol, which `ops.pages` fulfils.

The page knows neither Kafka nor the commands. Each method is called in a thread, may take seconds, and raises
`settings.RajadaError` with a message that says what to do. `whose` is the organization that alone may be
seen; None = all of them, and what belongs to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from settings import RajadaError
from web.pages.told import (
    Actor,
    Alert,
    Delays,
    Instances,
    Job,
    Letters,
    Opened,
    Overview,
    Shadow,
    Story,
    Windows,
)

Order = Literal["cancel", "run_now", "hold", "release"]


class Missing(RajadaError):
    """What was asked for is not there, or not of the organization that may be seen."""


class Declined(RajadaError):
    """An act that means nothing in the state that its object is in; the message says why."""


class Desk(Protocol):
    """All that the page shows and does."""

    def overview(self, whose: str | None) -> Overview:
        """Everything at a glance."""
        ...

    def jobs(self, whose: str | None, status: str | None, kind: str | None, most: int) -> Sequence[Job]:
        """Jobs, the newest first."""
        ...

    def job(self, whose: str | None, job_id: str) -> Job | None:
        """One job by its row; None: it has none."""
        ...

    def order(self, actor: Actor, action: Order, job_id: str, order_id: str, reason: str) -> str:
        """Order something of a job; returns what came of it, in words. Raises Missing, Declined.

        `order_id`, a UUID: given twice, done once.
        """
        ...

    def alerts(self, whose: str | None, everything: bool) -> Sequence[Alert]:
        """The alerts that are not resolved, or all."""
        ...

    def deal_with(self, actor: Actor, alert_id: str, status: Literal["ack", "resolved"]) -> str:
        """Acknowledge or resolve; returns what came of it, in words. Raises Missing."""
        ...

    def story(self, whose: str | None, asked: str) -> Story:
        """The story of an event, a message, a job or a contact."""
        ...

    def letters(
        self, whose: str | None, *, parking: bool, closed: bool, reason: str | None, most: int
    ) -> Letters:
        """Dead letters, the newest first."""
        ...

    def letter(self, whose: str | None, place: str, *, unmasked: bool) -> Opened:
        """One letter. Raises Missing."""
        ...

    def requeue(self, actor: Actor, place: str, reason: str) -> str:
        """Send a letter again; returns what came of it. Raises Missing, Declined."""
        ...

    def drop(self, actor: Actor, place: str, reason: str) -> str:
        """Give a letter up; returns what came of it. Raises Missing, Declined."""
        ...

    def windows(self, whose: str | None) -> Windows:
        """Open windows and lanes."""
        ...

    def delays(self, whose: str | None) -> Delays:
        """What waits for its time."""
        ...

    def shadow(self, whose: str | None, hours: int) -> Shadow:
        """What a shadow decided beside the old drain in the last hours. Raises Missing: none has run."""
        ...

    def instances(self, whose: str | None) -> Instances:
        """WhatsApp instances and the reconciler's runs."""
        ...

    def close(self) -> None:
        """End what runs in the background."""
        ...
