"""What the executor needs of the world around it, as small protocols (see `streams.ports`)."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Collection, Iterator
from typing import Protocol

from streams.contact_jobs import ContactJobs


class JobsTable(Protocol):
    """The jobs table: memory in front of its changelog."""

    def get(self, key: bytes, partition: int) -> ContactJobs | None:
        """The jobs of a contact, as they stand in memory."""

    def peek(self, key: bytes, partition: int) -> ContactJobs | None:
        """As `get`, to look at: what nobody has used yet comes as a copy. Who changes it has to put it."""

    def put(self, key: bytes, value: ContactJobs | None, partition: int) -> None:
        """Mark the contact's jobs as changed (None: forgotten); written by the next flush."""

    def flush(self) -> Future[None]:
        """Write every change once; the future is done when all of it is durable."""

    @property
    def owned(self) -> set[int]:
        """The partitions that are owned."""

    def partition_items(self, partition: int) -> Iterator[tuple[bytes, ContactJobs]]:
        """The records of one partition, to look at only: they may be copies."""

    def partition_keys(self, partition: int) -> Iterator[bytes]:
        """The keys of one partition."""


class Fence(Protocol):
    """The group's word that we own what we owned."""

    def fence(self) -> Awaitable[None]:
        """Return once it was given, after this call."""


class SessionStatus(Protocol):
    """What is known of channel sessions."""

    async def not_working(self, ids: Collection[str]) -> set[str]:
        """Those that can't send now; never raises."""
