"""What a command about dead letters works with: the letters in Kafka, and in Postgres which are closed."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Message

from db.closed_letters import Closed, ClosedLetters
from db.runs import Connection, connect, try_lock
from ops.asking import NotMigrated, asking
from ops.copies import STALL_S
from ops.dlq.selection import Filter
from ops.endpoints import bootstrap_of, database_of
from ops.errors import AlreadyRunning, NotRunning, Unreachable
from ops.why.reader import TopicReader, headers_of
from settings import Settings
from streams.erasing import is_erased
from streams.lag import Lags
from streams.letters import Letter, Place

PAGE: Final = 1_000
"""Letters that are handled together."""
PAGE_BYTES: Final = 8 * 1024 * 1024
LOCK: Final = "letters"

Ranges = Mapping[int, tuple[int, int]]
"""Partition → the first offset, and the one after the last."""


@dataclass(slots=True)
class Page:
    """Some letters in their order, and how far they lead."""

    letters: list[Letter] = field(default_factory=list)
    """Those that are meant."""
    closed: dict[tuple[int, int], Closed] = field(default_factory=dict)
    """Of them, what was done before, by partition and offset; only where closed ones are meant too."""
    next: dict[int, int] = field(default_factory=dict)
    """Partition → the offset after the last that was looked at."""
    looked_at: int = 0


class Desk:
    """A context. With `rows_needed` it raises what is wrong with Postgres; else `note` says it."""

    def __init__(self, settings: Settings, topic: str, *, rows_needed: bool, by: str | None = None) -> None:
        self.settings = settings
        self.by = by or operator()
        """Who acts, for the audit."""
        self.topic = topic
        self.full_topic = settings.topic(topic)
        self.bootstrap = bootstrap_of(settings)
        self.note: str | None = None
        """Why it is not known which letters are closed."""
        self._rows_needed = rows_needed
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.topic_id = Lags(self.bootstrap).topic_id(self.full_topic)
        self.reader = self._stack.enter_context(TopicReader(self.bootstrap))
        self._connection: Connection | None = None
        try:
            self.url = database_of(self.settings)
            with asking(self.url):
                self._connection = self._stack.enter_context(connect(self.url, "dlq"))
                self._closed = ClosedLetters(self._connection, self.full_topic, self.topic_id)
                self._closed.among(0, 0, 0)
        except (Unreachable, NotRunning, NotMigrated) as error:
            if self._rows_needed:
                raise
            self._connection = None
            self.note = f"Which letters were requeued or dropped is not known: {error}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def connection(self) -> Connection:
        """To Postgres; there when `rows_needed`."""
        assert self._connection is not None, "a desk without rows has no connection"
        return self._connection

    @property
    def letters(self) -> ClosedLetters:
        """The closed letters; there when `rows_needed`."""
        assert self._connection is not None, "a desk without rows has no connection"
        return self._closed

    def lock(self) -> None:
        """Be the only one who closes letters; raises AlreadyRunning."""
        if not try_lock(self.connection, LOCK):
            raise AlreadyRunning(
                "Another command requeues, drops or erases dead letters just now; wait for it, or end it "
                "(it is gone on with by the same command)."
            )

    def ranges(self, chosen: Filter) -> dict[int, tuple[int, int]]:
        """What of the topic must be looked through for a selection, as it is now."""
        since = self.reader.since(self.full_topic, chosen.since_ms) if chosen.since_ms is not None else None
        found: dict[int, tuple[int, int]] = {}
        for partition in self.reader.partitions(self.full_topic):
            start, end = self.reader.bounds(self.full_topic, partition)
            if since is not None:
                start = max(start, since.get(partition, end))
            if chosen.places:
                offsets = [offset for other, offset in chosen.places if other == partition]
                if not offsets:
                    continue
                start, end = max(start, min(offsets)), min(end, max(offsets) + 1)
            if start < end:
                found[partition] = (start, end)
        return found

    def pages(
        self, chosen: Filter, ranges: Ranges, size: int = PAGE, *, erased: bool = False
    ) -> Iterator[Page]:
        """The letters of a selection, page by page, each partition in its order.

        Those whose contact was forgotten, but which Kafka could not delete yet, are nobody's business any
        more: they come only with `erased`. Memory is that of a page. Raises OpsError.
        """
        batch: list[Message] = []
        held = 0
        for message in self.reader.read(self.full_topic, ranges, stall_s=STALL_S):
            batch.append(message)
            held += len(message)
            if len(batch) >= size or held >= PAGE_BYTES:
                yield self._page(chosen, batch, erased)
                batch, held = [], 0
        if batch:
            yield self._page(chosen, batch, erased)

    def _page(self, chosen: Filter, batch: list[Message], erased: bool) -> Page:
        page = Page(looked_at=len(batch))
        found = [letter for letter in map(self._letter, batch) if chosen.takes(letter)]
        for message in batch:
            page.next[message.partition() or 0] = (message.offset() or 0) + 1
        closed = self._closed_among(found)
        if chosen.closed:
            gone = {place for place, what in closed.items() if what.how == "erased" and not erased}
            page.letters = [one for one in found if (one.place.partition, one.place.offset) not in gone]
            page.closed = closed
        else:
            page.letters = [
                one
                for one in found
                # what replaces an erased letter is nothing that anybody could still settle
                if (one.place.partition, one.place.offset) not in closed and not is_erased(one)
            ]
        return page

    def _closed_among(self, found: list[Letter]) -> dict[tuple[int, int], Closed]:
        if self._connection is None:
            return {}
        offsets: dict[int, list[int]] = {}
        for letter in found:
            offsets.setdefault(letter.place.partition, []).append(letter.place.offset)
        with asking(self.url):
            return {
                (partition, offset): closed
                for partition, some in offsets.items()
                for offset, closed in self._closed.among(partition, min(some), max(some) + 1).items()
            }

    def _letter(self, message: Message) -> Letter:
        return Letter(
            Place(self.topic, message.partition() or 0, message.offset() or 0),
            message.timestamp()[1],
            _bytes(message.key()),
            _bytes(message.value()),
            headers_of(message),
        )

    def source(self, place: Place) -> str:
        """The place of a letter as its copies name it."""
        return f"{self.full_topic}/{place.partition}/{place.offset}"


def _bytes(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def operator() -> str:
    """Who gives a command: user and host, for the audit."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
