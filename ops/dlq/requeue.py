"""Requeues dead letters: copy, wait until the copies are durable, record it, page by page.

An interruption loses nothing, since a letter is closed only after its copy is durable. It doubles nothing:
a run that goes on keeps its number, looks for the copies of the page that was under way, and whatever still
arrives twice has the same event id (or command id) and replay number (spec/dispatch.md, "Replays").
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from db import runs
from db.closed_letters import ClosedRow, replays_of
from ops import copies as copying
from ops.asking import asking
from ops.backfill import Limit
from ops.dlq.desk import PAGE, Desk, Page
from ops.dlq.plan import PARKED
from ops.dlq.selection import Filter, short
from ops.errors import OpsError
from ops.moments import now_ms
from ops.sender import Sender
from schemas.topic_names import CONTROL, GROUP_LINKS, JOBS, OUTCOMES, PARKING, SOURCE
from streams.letters import Letter
from streams.requeueing import Copy, Run, Stays, requeued, source_of

COMMAND: Final = "requeue"
TARGETS: Final = (SOURCE, GROUP_LINKS, JOBS, OUTCOMES, CONTROL, PARKING)
TOLD: Final = 20
"""Letters that stay and are told one by one; all are counted."""


class Gone(OpsError):
    """The run that is asked for can't be gone on with; the message says why."""


class Selection(msgspec.Struct, frozen=True):
    """What a run was asked for, as it is stored."""

    chosen: Filter
    topic_id: str
    ranges: dict[int, tuple[int, int]]
    """As they were when it began: what dies again meanwhile is not for this run."""
    asked: tuple[str | None, str | None] = (None, None)
    """The times as they were typed: `2h` means another moment when the command is typed again."""
    because: str | None = None
    letters: int = 0
    """How many were counted."""

    def is_same(self, other: Selection) -> bool:
        """Whether somebody asks for the same again."""
        timeless = [
            msgspec.structs.replace(one.chosen, since_ms=None, until_ms=None) for one in (self, other)
        ]
        return timeless[0] == timeless[1] and self.asked == other.asked and self.topic_id == other.topic_id


class Progress(copying.Progress):
    """How far a run is, as it is stored."""

    requeued: int = 0
    parked: int = 0
    stayed: int = 0

    @property
    def done(self) -> int:
        """Letters that were settled, or that stay."""
        return self.requeued + self.parked + self.stayed


@dataclass(slots=True)
class Result:
    """What came of a command."""

    run: int
    progress: Progress
    seconds: float = 0.0
    interrupted: bool = False
    stays: list[tuple[str, str]] = field(default_factory=list)
    """Place → why; the first `TOLD`."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why → how many stay."""


Watch = Callable[[Progress], None]
_progress = msgspec.json.Decoder(Progress)
_selection = msgspec.json.Decoder(Selection)


def selection_of(stored: runs.StoredRun) -> Selection:
    """What a stored run was asked for."""
    return _selection.decode(stored.selection)


def progress_of(stored: runs.StoredRun) -> Progress:
    """How far a stored run is."""
    return _progress.decode(stored.progress)


def begin(desk: Desk, selection: Selection) -> runs.StoredRun:
    """Store a run with a number of its own. The lock is held. Raises OpsError."""
    ends = {name: desk.reader.ends(desk.settings.topic(name)) for name in TARGETS}
    progress = Progress(targets=ends, noted_ms=now_ms())
    with asking(desk.url):
        number = runs.begin(desk.connection, COMMAND, _text(selection), _text(progress), desk.by)
        found = runs.find(desk.connection, COMMAND, number)
    assert found is not None, "a run that was just stored is there"
    return found


def unfinished(desk: Desk) -> list[runs.StoredRun]:
    """Runs on the desk's topic that did not come to their end, oldest first. Raises OpsError."""
    with asking(desk.url):
        found = runs.unfinished(desk.connection, COMMAND)
    return [one for one in found if selection_of(one).topic_id == desk.topic_id]


def begun_before(desk: Desk, selection: Selection) -> runs.StoredRun | None:
    """The newest unfinished run that was asked for the same. Raises OpsError."""
    return next((one for one in reversed(unfinished(desk)) if selection_of(one).is_same(selection)), None)


def of_number(desk: Desk, number: int) -> runs.StoredRun:
    """The unfinished run of a number; raises Gone when it can't be gone on with, OpsError."""
    with asking(desk.url):
        found = runs.find(desk.connection, COMMAND, number)
    if found is None:
        raise Gone(f"There is no requeue of number {number}; `rajada dlq ls` names the unfinished ones.")
    if found.finished_at is not None:
        raise Gone(f"The requeue {number} has ended; select what is still open anew.")
    if selection_of(found).chosen.topic != desk.topic:
        raise Gone(
            f"The requeue {number} is of the {short(selection_of(found).chosen.topic)}: add --parking."
        )
    if selection_of(found).topic_id != desk.topic_id:
        raise Gone(f"{desk.full_topic} was made anew since requeue {number} began: its letters are gone.")
    return found


class Requeue:
    """One run at work. Each page is at most half a second's worth of the rate."""

    def __init__(
        self,
        desk: Desk,
        stored: runs.StoredRun,
        sender: Sender,
        rate: float | None,
        stop: threading.Event,
        *,
        resumed: bool = False,
    ) -> None:
        self._desk = desk
        self._resumed = resumed
        self._sender = sender
        self._stop = stop
        self._selection = selection_of(stored)
        self._run = Run(stored.number, now_ms(), desk.by, self._selection.because)
        self._limit = Limit(rate, stop) if rate is not None else None
        self._size = PAGE if rate is None else max(1, min(PAGE, int(rate / 2)))
        self._result = Result(stored.number, progress_of(stored))
        self._copied: set[str] = set()

    def work(self, watch: Watch) -> Result:
        """Until everything is requeued or `stop` is set. Raises OpsError: then the same command goes on."""
        begun = time.monotonic()
        progress, result = self._result.progress, self._result
        left = {
            partition: (progress.next.get(partition, start), end)
            for partition, (start, end) in self._selection.ranges.items()
        }
        with asking(self._desk.url):
            for other in unfinished(self._desk):
                if other.number != result.run or self._resumed:
                    self._copied |= copying.written_since(
                        self._desk.reader, self._desk.settings, progress_of(other)
                    )
            for page in self._desk.pages(self._selection.chosen, left, self._size):
                if self._stop.is_set():
                    result.interrupted = True
                    break
                self._page(page)
                watch(progress)
            else:
                runs.note(self._desk.connection, result.run, _text(progress), finished=True)
        result.seconds = time.monotonic() - begun
        return result

    def _page(self, page: Page) -> None:
        copies = self._copies(page)
        wanted = [(letter, copy) for letter, copy in copies if source_of(copy.headers) not in self._copied]
        if self._limit is not None and wanted:
            self._limit.wait(len(wanted))
        refused = self._sender.send([copy for _, copy in wanted])
        for index, why in refused.items():
            self._stays(wanted[index][0], why)
        gone = {id(wanted[index][0]) for index in refused}
        self._record(page, [(letter, copy) for letter, copy in copies if id(letter) not in gone])

    def _copies(self, page: Page) -> list[tuple[Letter, Copy]]:
        letters = page.letters
        known = replays_of(self._desk.connection, {letter.about for letter in letters if letter.about})
        found: list[tuple[Letter, Copy]] = []
        for letter in letters:
            closed = page.closed.get((letter.place.partition, letter.place.offset))
            parked = closed is not None and closed.how == "parked" and closed.replay != self._run.number
            copy = Stays(PARKED) if parked else self.copy_of(letter, known)
            if isinstance(copy, Copy):
                found.append((letter, copy))
            else:
                self._stays(letter, copy.why)
        return found

    def copy_of(self, letter: Letter, known: Mapping[str, int]) -> Copy | Stays:
        """What a letter goes as; `known` says how often its event or job was requeued, as Postgres knows."""
        replays = max(letter.replays, known.get(letter.about or "", 0))
        chosen = self._selection.chosen
        by_hand = chosen.topic == PARKING
        return requeued(letter, replays, self._desk.source(letter.place), self._run, park=not by_hand)

    def _record(self, page: Page, copied: Sequence[tuple[Letter, Copy]]) -> None:
        """Close what was copied and note how far we are, together."""
        progress, by = self._result.progress, self._run.by
        parked = [letter for letter, copy in copied if copy.topic == PARKING]
        sent = [letter for letter, copy in copied if copy.topic != PARKING]
        progress.parked += len(parked)
        progress.requeued += len(sent)
        progress.reach(page.next, self._sender.ends)
        with self._desk.connection.transaction():
            self._desk.letters.close(_rows(sent), "requeued", by, self._run.number)
            self._desk.letters.close(_rows(parked), "parked", by, self._run.number)
            runs.note(self._desk.connection, self._run.number, _text(progress))

    def _stays(self, letter: Letter, why: str) -> None:
        self._result.progress.stayed += 1
        self._result.reasons[why] += 1
        if len(self._result.stays) < TOLD:
            self._result.stays.append((str(letter.place), why))


def _rows(letters: Iterable[Letter]) -> list[ClosedRow]:
    return [ClosedRow(one.place.partition, one.place.offset, one.about) for one in letters]


def _text(struct: msgspec.Struct) -> str:
    return msgspec.json.encode(struct).decode()
