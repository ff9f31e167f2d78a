"""Publishes a stretch of a topic again under one run's number (spec/jobs.md, "Replay").

Pages are copied and recorded as those of a requeue (`ops.dlq.requeue`), so an interrupted run goes on with
its own number. What lies behind the stretch when the run begins is not part of it, its own copies least.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import msgspec
from confluent_kafka import Message

from db import runs
from db.queries import load
from db.runs import Connection
from ops import copies
from ops.asking import asking
from ops.backfill import Limit
from ops.copies import STALL_S
from ops.dlq.desk import PAGE, PAGE_BYTES, operator
from ops.errors import AlreadyRunning, OpsError
from ops.sender import Sender
from ops.why.reader import TopicReader, headers_of
from schemas.topic_names import GROUP_LINKS
from settings import Settings
from streams.replaying import Skipped, Source, event_id_of, is_done, replayed
from streams.requeueing import Copy

COMMAND: Final = "replay"
LOCK: Final = "replay"
_BUSY: Final = "Another replay runs just now; wait for it, or end it: the same command goes on."


class CannotGoOn(OpsError):
    """The run that is asked for can't be gone on with; the message says why."""


class Selection(msgspec.Struct, frozen=True):
    """What a run was asked for, as it is stored."""

    topic: str
    """Without prefix."""
    topic_id: str
    ranges: dict[int, tuple[int, int]]
    """Partition → the first offset, and the one after the last."""
    asked: tuple[str | None, ...] = ()
    """The options as they were typed."""
    key: str | None = None
    again: bool = False
    records: int = 0
    """How many were counted."""


class Progress(copies.Progress):
    """How far a run is, as it is stored."""

    sent: int = 0
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    """Why → how many were left out."""

    @property
    def done(self) -> int:
        """Records that were looked at and asked for."""
        return self.sent + sum(count for why, count in self.skipped.items() if why != "another key")


@dataclass(slots=True)
class Counted:
    """What a selection holds."""

    records: int = 0
    events: set[bytes] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Page:
    """Some records in their order, and how far they lead."""

    sources: list[Source]
    next: dict[int, int]


Watch = Callable[[int], None]
_progress = msgspec.json.Decoder(Progress)
_selection = msgspec.json.Decoder(Selection)


def progress_of(stored: runs.StoredRun) -> Progress:
    """How far a stored run is."""
    return _progress.decode(stored.progress)


def selection_of(stored: runs.StoredRun) -> Selection:
    """What a stored run was asked for."""
    return _selection.decode(stored.selection)


class Replay:
    """The replays of one command. With a database that holds the runs. Not for several threads."""

    def __init__(
        self, url: str, connection: Connection, reader: TopicReader, settings: Settings, bootstrap: str
    ) -> None:
        self._url = url
        self._connection = connection
        self._reader = reader
        self._settings = settings
        self._bootstrap = bootstrap

    def lock(self) -> None:
        """Be the only one; raises AlreadyRunning."""
        if not runs.try_lock(self._connection, LOCK):
            raise AlreadyRunning(_BUSY)

    def count(self, chosen: Selection, watch: Watch) -> Counted:
        """Look through a selection without sending. Raises OpsError."""
        counted, looked_at = Counted(), 0
        with asking(self._url):
            for page in self._pages(chosen, chosen.ranges):
                done = self._done(chosen, page.sources)
                for source in page.sources:
                    what = self._copy(chosen, source, 0, done, counted.events)
                    if isinstance(what, Copy):
                        counted.records += 1
                    else:
                        counted.skipped[what] += 1
                looked_at += len(page.sources)
                watch(looked_at)
        return counted

    def begun_before(self, chosen: Selection) -> runs.StoredRun | None:
        """The newest unfinished run that was asked for the same. Raises OpsError."""
        with asking(self._url):
            found = runs.unfinished(self._connection, COMMAND)
        same = [one for one in found if _is_same(selection_of(one), chosen)]
        return same[-1] if same else None

    def unfinished(self, topic: str, but: int | None) -> list[int]:
        """Other runs on a topic (without prefix) that did not come to their end. Raises OpsError."""
        with asking(self._url):
            found = runs.unfinished(self._connection, COMMAND)
        return [one.number for one in found if one.number != but and selection_of(one).topic == topic]

    def of_number(self, number: int, topic_id: str) -> runs.StoredRun:
        """The unfinished run of a number; raises CannotGoOn, OpsError."""
        with asking(self._url):
            found = runs.find(self._connection, COMMAND, number)
        if found is None:
            raise CannotGoOn(f"There is no replay of number {number}.")
        if found.finished_at is not None:
            raise CannotGoOn(f"The replay {number} has ended.")
        if selection_of(found).topic_id != topic_id:
            raise CannotGoOn(f"The replay {number} is of another topic, or of one that was made anew since.")
        return found

    def begin(self, chosen: Selection) -> runs.StoredRun:
        """Store a run with a number of its own. The lock is held. Raises OpsError."""
        ends = {chosen.topic: self._reader.ends(self._settings.topic(chosen.topic))}
        progress = Progress(targets=ends, noted_ms=time.time_ns() // 1_000_000)
        with asking(self._url):
            number = runs.begin(self._connection, COMMAND, _text(chosen), _text(progress), operator())
            found = runs.find(self._connection, COMMAND, number)
        assert found is not None, "a run that was just stored is there"
        return found

    def work(
        self, stored: runs.StoredRun, rate: float, stop: threading.Event, watch: Watch, *, resumed: bool
    ) -> tuple[Progress, bool]:
        """Until all is sent or `stop` is set; returns how far it is and whether that is the end.

        Raises OpsError: the same command goes on.
        """
        chosen, progress = selection_of(stored), progress_of(stored)
        left = {
            partition: (progress.next.get(partition, start), end)
            for partition, (start, end) in chosen.ranges.items()
        }
        limit, seen = Limit(rate, stop), set[bytes]()
        sender = Sender(self._bootstrap, self._settings)
        with asking(self._url):
            before = (
                copies.written_since(self._reader, self._settings, progress) if resumed else frozenset[str]()
            )
            for page in self._pages(chosen, left, max(1, min(PAGE, int(rate / 2)))):
                if stop.is_set():
                    return progress, False
                done = self._done(chosen, page.sources)
                wanted: list[Copy] = []
                for source in page.sources:
                    what = self._copy(chosen, source, stored.number, done, seen)
                    if not isinstance(what, Copy):
                        progress.skipped[what] = progress.skipped.get(what, 0) + 1
                    elif source.place in before:
                        progress.sent += 1
                    else:
                        wanted.append(what)
                self._send(sender, limit, wanted, progress)
                progress.reach(page.next, sender.ends)
                runs.note(self._connection, stored.number, _text(progress))
                watch(progress.done)
            runs.note(self._connection, stored.number, _text(progress), finished=True)
        return progress, True

    def _send(self, sender: Sender, limit: Limit, wanted: Sequence[Copy], progress: Progress) -> None:
        if wanted:
            limit.wait(len(wanted))
        refused = sender.send(wanted)
        progress.sent += len(wanted) - len(refused)
        if refused:
            progress.skipped["too large"] = progress.skipped.get("too large", 0) + len(refused)

    def _copy(
        self, chosen: Selection, source: Source, number: int, done: set[str], seen: set[bytes]
    ) -> Copy | Skipped:
        if chosen.key is not None and source.key != chosen.key.encode():
            return "another key"
        copy = replayed(source, number, again=chosen.again)
        if not isinstance(copy, Copy):
            return copy
        if is_done(source, done):
            return "done"
        if chosen.again:
            # of several records of one event in a stretch (it was sent again before) one is enough
            event_id = event_id_of(source)
            name = UUID(event_id).bytes if event_id is not None else source.place.encode()
            if name in seen:
                return "twice"
            seen.add(name)
        return copy

    def _done(self, chosen: Selection, sources: Sequence[Source]) -> set[str]:
        """Of the events of group links, those that were done."""
        if chosen.topic != GROUP_LINKS:
            return set()
        ids = [UUID(one) for one in map(event_id_of, sources) if one is not None]
        rows = self._connection.execute(load("events_done"), {"ids": ids}).fetchall()
        return {str(event_id) for (event_id,) in rows}

    def _pages(
        self, chosen: Selection, ranges: Mapping[int, tuple[int, int]], size: int = PAGE
    ) -> Iterator[Page]:
        batch: list[Message] = []
        held = 0
        for message in self._reader.read(self._settings.topic(chosen.topic), ranges, stall_s=STALL_S):
            batch.append(message)
            held += len(message)
            if len(batch) >= size or held >= PAGE_BYTES:
                yield _page(chosen.topic, batch)
                batch, held = [], 0
        if batch:
            yield _page(chosen.topic, batch)


def _page(topic: str, batch: Sequence[Message]) -> Page:
    return Page(
        [_source(topic, message) for message in batch],
        {message.partition() or 0: (message.offset() or 0) + 1 for message in batch},
    )


def _source(topic: str, message: Message) -> Source:
    return Source(
        topic,
        f"{message.topic()}/{message.partition()}/{message.offset()}",
        _bytes(message.key()),
        _bytes(message.value()),
        headers_of(message),
        message.timestamp()[1],
    )


def _bytes(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _is_same(stored: Selection, asked: Selection) -> bool:
    """Whether somebody asks for the same again; the ranges of open ends have grown meanwhile."""
    return (stored.topic_id, stored.asked, stored.key, stored.again) == (
        asked.topic_id, asked.asked, asked.key, asked.again,
    )  # fmt: skip


def _text(struct: msgspec.Struct) -> str:
    return msgspec.json.encode(struct).decode()
