"""Clocks that can be set while processes run: each process is told how wrong its own is.

What Python code reads is moved (`time.time`, `time.time_ns`), and nothing else. A preloaded library can move
what C code reads, but not all that it waits by: libfaketime sets librdkafka's deadlines (`timespec_get`) and
not glibc's wait for them (`cnd_timedwait`), so a client that began while the clock was an hour ahead waited
for an hour; and it made `time.sleep` fail. No real clock does that.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

LIBRARY: Final = Path(__file__).with_name("wrong_clock")
HOUR_NS: Final = 3_600_000_000_000


class Clocks:
    """A wall clock for each process, a file each in `folder`; the monotonic clock stays as it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used = False

    def use(self) -> None:
        """From the next start on processes ask their file; without this nothing is changed for them."""
        self._used = True
        self._folder.mkdir(parents=True, exist_ok=True)

    def environment(self, name: str) -> dict[str, str]:
        """What a process is told."""
        if not self._used:
            return {}
        path = os.pathsep.join(filter(None, [str(LIBRARY), os.environ.get("PYTHONPATH")]))
        return {"PYTHONPATH": path, "CHAOS_CLOCK_FILE": str(self._file(name))}

    def step(self, name: str, hours: float) -> None:
        """Set a process' clock so far ahead of the true one, or behind it; it sees that within a second."""
        draft = self._file(name).with_suffix(".new")
        draft.write_text(str(round(hours * HOUR_NS)))
        draft.replace(self._file(name))

    def _file(self, name: str) -> Path:
        return self._folder / name
