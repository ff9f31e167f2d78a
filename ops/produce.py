"""`rajada produce`: rows of the event log from JSON lines, to the table or straight to the topic.

Lines are read once, in order, so that a pipe serves as well as a file. Every line is looked at, also after
a wrong one, so that all that is wrong is told together.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

from ops.event_lines import LARGEST_BYTES, EventLine, LineError, read_line
from ops.event_targets import Target, TargetFailed

BATCH: Final = 500
"""Rows handed over at once; fewer when a pipe has no more for now or the rate is low."""
BATCH_BYTES: Final = 8 * 1024 * 1024
PATIENCE_S: Final = 0.2
"""How long rows from a pipe wait for others to go with them."""
TOLD: Final = 50
"""Errors that are kept to be told; all are counted."""

REFUSED: Final = 9
"""Exit code when lines are wrong."""
INTERRUPTED: Final = 130

Batch = list[tuple[int, bytes]]


@dataclass(slots=True)
class Produced:
    """What came of a run."""

    target: str
    atomic: bool = False
    lines: int = 0
    """Lines that were looked at, without empty and skipped ones."""
    bytes: int = 0
    valid: int = 0
    refused: int = 0
    """Lines that are wrong, by themselves or to Postgres."""
    written: int = 0
    already: int = 0
    """Rows whose id was there before; they were left as they are."""
    errors: list[LineError] = field(default_factory=list)
    generated: dict[int, str] = field(default_factory=dict)
    """Line → the id it got, of the rows that were written."""
    seconds: float = 0.0
    stopped: str = ""
    """Why it ended early; empty when it did not."""
    interrupted: bool = False
    """It was Ctrl-C."""
    go_on_at: int | None = None
    """Line to go on from after an early end; everything before it is durable or was refused."""

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was done."""
        return not self.stopped and not self.refused

    @property
    def exit_code(self) -> int:
        """0 complete, 9 lines are wrong, 7 the target failed, 130 Ctrl-C."""
        if self.stopped:
            return INTERRUPTED if self.interrupted else TargetFailed.exit_code
        return REFUSED if self.refused else 0


def batches(
    source: IO[bytes],
    *,
    size: int,
    from_line: int = 1,
    pipe: bool = False,
    at_end: Callable[[int], None] = lambda lines: None,
) -> Iterator[Batch]:
    """Numbered lines in batches; empty lines and those before `from_line` are left out.

    From a pipe a batch is handed on when nothing more comes for a moment, so that slow writers are followed.
    `at_end` is told how many lines there were, empty ones too.
    """
    batch: Batch = []
    held = number = 0
    for line in _from_pipe(source) if pipe else _lines(source):
        if line is not None:
            number += 1
            text = line.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else line.strip()
            if text and number >= from_line:
                batch.append((number, text))
                held += len(text)
        paused = line is None and batch
        if paused or len(batch) >= size or held > BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
    at_end(number)


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    """The lines; of one that is too long only as much as shows that it is."""
    limit = LARGEST_BYTES + 2
    while line := source.readline(limit):
        yield line
        while len(line) == limit and not line.endswith(b"\n"):
            line = source.readline(limit)


def _from_pipe(source: IO[bytes]) -> Iterator[bytes | None]:
    """Lines as they come, None for each pause; read in a thread, since a read can't be bounded in time."""
    lines: queue.Queue[bytes | Exception | None] = queue.Queue(maxsize=10 * BATCH)

    def read() -> None:
        try:
            for line in _lines(source):
                lines.put(line)
        except (OSError, ValueError) as error:
            lines.put(error)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        if isinstance(line, Exception):
            raise line
        yield line


class Pace:
    """Keeps to a rate (rows a second; None = none) by sleeping before a batch."""

    def __init__(self, rate: float | None, sleep: Callable[[float], None] = time.sleep) -> None:
        self._rate = rate
        self._sleep = sleep
        self._begun = time.monotonic()
        self._rows = 0

    @property
    def batch_size(self) -> int:
        """Small enough for ten batches a second."""
        return BATCH if self._rate is None else max(1, min(BATCH, int(self._rate / 10)))

    def wait(self, rows: int) -> None:
        """Sleep until `rows` more may go."""
        if self._rate is not None:
            ahead_s = self._begun + self._rows / self._rate - time.monotonic()
            if ahead_s > 0:
                self._sleep(ahead_s)
        self._rows += rows


def produce(
    lines: Iterable[Batch],
    target: Target | None,
    *,
    atomic: bool,
    pace: Pace | None = None,
    any_payload: bool = False,
    watch: Callable[[Produced], None] = lambda produced: None,
) -> Produced:
    """Check every line and write the rows; `target` None only checks.

    With `atomic` one wrong line means that nothing is written. Failures of the target and Ctrl-C end the run
    early and are told in the result (`stopped`, `go_on_at`).
    """
    produced = Produced(target.name if target is not None else "nothing (dry run)", atomic)
    begun = time.monotonic()
    pace = pace or Pace(None)
    reached = 0
    try:
        for batch in lines:
            rows = _checked(batch, produced, any_payload)
            if rows and target is not None and not (atomic and produced.refused):
                pace.wait(len(rows))
                last = rows[-1].line
                _note_refused(target.write(rows), rows, produced)
                reached = last
                produced.generated |= {row.line: row.id for row in rows if row.generated}
                produced.written, produced.already = target.written, target.already
            watch(produced)
        if target is not None:
            _end(target, produced)
    except KeyboardInterrupt:
        produced.interrupted = True
        _stop(target, produced, "stopped by Ctrl-C", reached)
    except TargetFailed as error:
        _stop(target, produced, str(error), reached)
    produced.seconds = time.monotonic() - begun
    return produced


def _checked(batch: Batch, produced: Produced, any_payload: bool) -> list[EventLine]:
    rows = []
    for number, text in batch:
        produced.lines += 1
        produced.bytes += len(text) + 1
        read = read_line(number, text, any_payload=any_payload)
        if isinstance(read, EventLine):
            rows.append(read)
            produced.valid += 1
        else:
            produced.refused += 1
            produced.errors += read[: TOLD - len(produced.errors)]
    return rows


def _note_refused(refused: list[LineError], rows: list[EventLine], produced: Produced) -> None:
    """Rows that the target refused are not written; they have no id to be told."""
    if refused:
        gone = {error.line for error in refused}
        rows[:] = [row for row in rows if row.line not in gone]
        produced.valid -= len(gone)
        produced.refused += len(gone)
        produced.errors += refused[: TOLD - len(produced.errors)]


def _end(target: Target, produced: Produced) -> None:
    if produced.atomic and produced.refused:
        target.abort()
        produced.generated.clear()
    else:
        target.finish()
    produced.written, produced.already = target.written, target.already


def _stop(target: Target | None, produced: Produced, why: str, reached: int) -> None:
    """End early: what is durable stays (unless atomic), and where to go on is known."""
    produced.stopped = why
    if target is None:
        return
    target.abort()
    undurable = target.undurable()
    produced.written, produced.already = target.written, target.already
    if produced.atomic:
        produced.generated.clear()
    else:
        produced.go_on_at = undurable if undurable is not None else reached + 1
        produced.generated = {
            line: event_id for line, event_id in produced.generated.items() if line < produced.go_on_at
        }
