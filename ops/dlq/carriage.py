"""Letters out to a file and in again: what an export holds, an import brings back byte for byte."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

from ops.copies import STALL_S
from ops.dlq.desk import PAGE, PAGE_BYTES, Desk, Ranges
from ops.dlq.lines import LARGEST_BYTES, Line, WrongLine, as_line, digest, of_line
from ops.dlq.selection import Filter
from ops.errors import OpsError
from ops.sender import Sender
from ops.why.reader import headers_of
from streams.requeueing import Copy

TOLD: Final = 50
"""Wrong lines that are told one by one; all are counted."""


class TooLarge(OpsError):
    """A letter of the file is above the topic's limit; what came before it is written."""


@dataclass(slots=True)
class Checked:
    """What a file holds."""

    lines: int = 0
    """Without empty ones."""
    topics: set[str] = field(default_factory=set)
    oldest_ms: int = 0
    digests: set[bytes] = field(default_factory=set)
    wrong: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)
    """Line → what is wrong; the first `TOLD`."""


@dataclass(slots=True)
class Imported:
    """What came of an import."""

    written: int = 0
    already: int = 0
    """Letters that are there: nothing is brought in twice."""
    interrupted: bool = False


def export(
    desk: Desk,
    chosen: Filter,
    ranges: Ranges,
    out: IO[bytes],
    stop: threading.Event,
    watch: Callable[[int], None],
) -> tuple[int, bool]:
    """Write the letters of a selection as lines; returns how many, and whether it was all of them."""
    written = 0
    for page in desk.pages(chosen, ranges):
        if stop.is_set():
            return written, False
        out.writelines(as_line(letter) + b"\n" for letter in page.letters)
        written += len(page.letters)
        watch(written)
    return written, True


def check(source: IO[bytes]) -> Checked:
    """Look at every line of a file, so that one with a wrong line is not imported in part."""
    checked = Checked()
    for number, text in numbered(source):
        checked.lines += 1
        try:
            line = of_line(text)
        except WrongLine as error:
            checked.wrong += 1
            if len(checked.errors) < TOLD:
                checked.errors.append((number, str(error)))
            continue
        checked.topics.add(line.topic)
        checked.oldest_ms = min(checked.oldest_ms or line.at_ms, line.at_ms)
        checked.digests.add(line.digest)
    return checked


def there_already(desk: Desk, checked: Checked) -> set[bytes]:
    """Which of a file's letters of the desk's topic are in it. Raises Unreachable."""
    found: set[bytes] = set()
    ranges = desk.ranges(Filter(topic=desk.topic, since_ms=checked.oldest_ms or None))
    for message in desk.reader.read(desk.full_topic, ranges, stall_s=STALL_S):
        key, value = _bytes(message.key()), _bytes(message.value())
        # a line may say no time of its own
        for at_ms in (message.timestamp()[1], 0):
            made = digest(at_ms, key, value, headers_of(message))
            if made in checked.digests:
                found.add(made)
    return found


def bring_in(
    desk: Desk,
    source: IO[bytes],
    already: set[bytes],
    sender: Sender,
    stop: threading.Event,
    watch: Callable[[Imported], None],
) -> Imported:
    """Write the letters of the desk's topic that are not there. Raises SendFailed; the same file goes on."""
    done = Imported()
    page: list[Copy] = []
    held = 0
    for _, text in numbered(source):
        line = of_line(text)
        if line.topic != desk.topic:
            continue
        made = line.digest
        if made in already:
            done.already += 1
            continue
        already.add(made)
        page.append(_copy(line))
        held += len(line.value or b"")
        if len(page) >= PAGE or held >= PAGE_BYTES:
            _write(page, sender, done)
            watch(done)
            page, held = [], 0
            if stop.is_set():
                done.interrupted = True
                return done
    _write(page, sender, done)
    return done


def _write(page: list[Copy], sender: Sender, done: Imported) -> None:
    refused = sender.send(page)
    done.written += len(page) - len(refused)
    if refused:
        raise TooLarge(f"A letter can't be written: {next(iter(refused.values()))}, and import again.")


def _copy(line: Line) -> Copy:
    return Copy(line.topic, line.key, line.value, line.headers, line.at_ms)


def numbered(source: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, each with its number; of one that is too long only its beginning."""
    number = 0
    while text := source.readline(LARGEST_BYTES + 2):
        number += 1
        whole = text.endswith(b"\n")
        if text.strip():
            yield number, text.strip()
        while not whole and (rest := source.readline(LARGEST_BYTES)):
            whole = rest.endswith(b"\n")


def _bytes(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
