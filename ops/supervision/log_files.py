"""Log files that don't grow without end."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_S = 0.2


def bound(folder: Path, most_bytes: int) -> list[Path]:
    """Set aside (`NAME.log.1`) and empty each log of `folder` larger than `most_bytes`; returns those.

    The processes append, so an emptied file goes on from its start. What is written between the copy and the
    emptying is lost; a log of this stack is for people, nothing is counted from it.
    """
    turned = []
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if log.stat().st_size > most_bytes:
                shutil.copyfile(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)
                turned.append(log)
    return turned


def last_lines(log: Path, count: int) -> list[str]:
    """The last `count` lines of a log, read from its end."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        wanted, block = b"", 64 * 1024
        while size > 0 and wanted.count(b"\n") <= count:
            start = max(0, size - block)
            file.seek(start)
            wanted = file.read(size - start) + wanted
            size = start
    return wanted.decode(errors="replace").splitlines()[-count:] if count > 0 else []


def follow(log: Path) -> Iterator[str]:
    """Text that is appended to a log from now on, for ever; an emptied log is read from its start."""
    at = log.stat().st_size
    while True:
        size = log.stat().st_size if log.exists() else 0
        if size < at:
            at = 0
        if size > at:
            with log.open("rb") as file:
                file.seek(at)
                new = file.read()
            at += len(new)
            yield new.decode(errors="replace")
        else:
            time.sleep(_POLL_S)
