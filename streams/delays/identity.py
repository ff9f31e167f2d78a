"""Who a forwarder is to Kafka: the same again after a restart on the same machine, and nobody else meanwhile.

A forwarder that died in a transaction leaves it open, and the partitions it wrote to stand still until
Kafka aborts it. One that comes back under the same name ends it at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

MOST: Final = 64
"""Forwarders on one folder."""


@contextlib.contextmanager
def identity(home: Path) -> Iterator[str]:
    """A name that nobody else has while the block runs.

    It is kept in a file of `home`, which is locked meanwhile: several forwarders on one folder get one each.
    Where there is no such folder, or it can't be written, the name is a new one.
    """
    with contextlib.ExitStack() as stack:
        yield _kept(home, stack) or uuid.uuid4().hex


def _kept(home: Path, stack: contextlib.ExitStack) -> str | None:
    if not home.is_dir():
        return None
    for number in range(MOST):
        try:
            file = stack.enter_context((home / f"delays-{number}.id").open("a+"))
            if _locked(file):
                return _name_in(file)
        except OSError:
            return None
    return None


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_in(file: IO[str]) -> str:
    file.seek(0)
    name = file.read().strip()
    if not name:
        name = uuid.uuid4().hex
        file.truncate(0)
        file.write(name)
        file.flush()
    return name
