"""Clocks that can be set while processes run, where libfaketime is installed (`apt-get install faketime`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_LIBRARIES: Final = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib*/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
    "/opt/homebrew/lib/faketime/libfaketimeMT.so.1",
)


def library() -> Path | None:
    """libfaketime for programs with threads; None: not installed."""
    for pattern in _LIBRARIES:
        for found in sorted(Path("/").glob(pattern.lstrip("/"))):
            return found
    return None


def forget(pid: int) -> None:
    """Remove what libfaketime leaves of a killed process: a later one of this pid would wait for it."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        Path("/dev/shm", name).unlink(missing_ok=True)


class Clocks:
    """A wall clock for each process, a file each in `folder`; the monotonic clock stays as it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library: Path | None = None

    def use(self) -> None:
        """From the next start on processes ask libfaketime; without this nothing is changed for them."""
        self._library = library()
        self._folder.mkdir(parents=True, exist_ok=True)

    def environment(self, name: str) -> dict[str, str]:
        """What a process is told."""
        if self._library is None:
            return {}
        if not self._file(name).exists():
            self.step(name, 0.0)
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file(name)),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set_right(self, name: str) -> None:
        """The true time again, if clocks are used: who starts with a wrong one is told of, no more."""
        if self._library is not None:
            self.step(name, 0.0)

    def step(self, name: str, hours: float) -> None:
        """Set a process' clock so far ahead of the true one, or behind it; it sees that within a second."""
        draft = self._file(name).with_suffix(".new")
        draft.write_text(f"{hours * 3600:+.0f}s\n" if hours else "+0s\n")
        draft.replace(self._file(name))

    def _file(self, name: str) -> Path:
        return self._folder / name
