"""What the stages need of the world around them, as small protocols.

The stages decide; the Faust application plugs in Kafka, Postgres and clocks (streams/app.py), tests plug
in plain objects and skip time.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Protocol

from schemas.dead import Header
from streams.contact import Contact, Window
from streams.decide import Decision
from streams.question import Question
from streams.windows import WindowRule

Item = tuple[bytes | None, bytes | None, int, Sequence[Header] | None]
"""What is sent: key, value, partition (-1 = by the key's hash), headers."""


class Contacts(Protocol):
    """The contacts table: memory in front of its changelog."""

    def get(self, key: bytes, partition: int) -> Contact | None:
        """The contact of a key, as it stands in memory."""

    def peek(self, key: bytes, partition: int) -> Contact | None:
        """The contact of a key, to look at only: it may be a copy."""

    def put(self, key: bytes, value: Contact | None, partition: int) -> None:
        """Mark the contact as changed (None: forgotten); written by the next flush."""

    def flush(self) -> Future[None]:
        """Write every changed contact once; the future is done when all of it is durable."""

    @property
    def owned(self) -> set[int]:
        """The partitions that are owned."""

    def partition_items(self, partition: int) -> Iterator[tuple[bytes, Contact]]:
        """The contacts of one partition, to look at only: they may be copies."""

    def partition_keys(self, partition: int) -> Iterator[bytes]:
        """The keys of one partition."""


class Outbox(Protocol):
    """Sends records; a failed delivery ends the process, so no caller has to handle one."""

    def send(self, topic: str, items: Iterable[Item]) -> Future[dict[int, int]]:
        """Send to a topic (name without prefix); partition → highest offset once all are durable."""


class Source(Protocol):
    """The source topic as this worker's group sees it."""

    def fence(self) -> Awaitable[None]:
        """Return once the group has confirmed, after this call, that we own what we owned."""

    def stable_end(self, partition: int) -> int | None:
        """Last stable offset that the newest fetch answer told; None before the first one."""

    def applied(self, partition: int) -> int | None:
        """Every record below was handled; None while unknown."""

    async def outcomes_end(self, partition: int) -> int:
        """The end of a partition of the outcomes topic, asked now."""

    def topic_id(self) -> str:
        """Kafka's id of the topic: another one after it was deleted and created again."""


class Lengths(Protocol):
    """How long windows are."""

    async def lookup(self, keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], WindowRule]:
        """Rules by (organization, conversation, channel session); never raises, defaults instead."""


class Decider(Protocol):
    """Reads the database and decides."""

    async def decide(self, questions: Sequence[Question]) -> list[Decision]:
        """One decision a question, in order; raises DatabaseAway when none can be made now."""


class Undertaker(Protocol):
    """Fetches the original records of a window's events, to be buried whole."""

    async def letters(self, key: bytes, partition: int, window: Window) -> list[Item]:
        """One dead letter an event."""
