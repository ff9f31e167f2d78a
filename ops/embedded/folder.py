"""The data folder: its layout, whose it is, and who works in it now.

A folder is ours by a marker file with the layout's version. Without it a folder that holds anything is
refused: a wrong path must never end in somebody else's files being mixed with a database.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ops.errors import AlreadyRunning, FolderRefused

LAYOUT_VERSION = 1
"""Grows when a newer Rajada lays the folder out in a way that this one would misread."""

MARKER = "rajada.json"
_KIND = "rajada data folder"
_MADE_BEFORE = frozenset({"worker", "demo", "status", "shadow"})
"""A demo, a shadow, or a worker that was started alone, leaves these in a folder that nobody marked."""
NO_ROOM_BYTES = 1 << 29
"""Below it a running stack is in trouble: Kafka and Postgres end when they can't write."""
LEAST_FREE_BYTES = 1 << 30
"""Kafka's and Postgres' first files and a day of their logs; a disk that runs full stops both."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The paths of one data folder; made by `open_folder` alone."""

    root: Path

    @property
    def logs(self) -> Path:
        """One log file a process."""
        return self.root / "logs"

    @property
    def status(self) -> Path:
        """What processes report of themselves (`status.py`)."""
        return self.root / "status"

    @property
    def cache(self) -> Path:
        """What can be made again: the JVM's archives, resolved class paths."""
        return self.root / "cache"

    @property
    def kafka(self) -> Path:
        """Kafka's data and properties."""
        return self.root / "kafka"

    @property
    def postgres(self) -> Path:
        """Postgres' data, or the note where it is (see `ops.embedded.location`)."""
        return self.root / "postgres"

    @property
    def ports(self) -> Path:
        """The ports that were chosen, kept between starts."""
        return self.root / "ports.json"

    @property
    def run_file(self) -> Path:
        """The processes that run now."""
        return self.root / "run.json"

    @property
    def lock(self) -> Path:
        """Held by the `rajada up` of this folder."""
        return self.root / "lock"


def shortage(free: int, root: Path) -> str:
    """What so little room on the disk of a data folder means, and what to do; empty: there is enough.

    Args:
        free: bytes that are left.
        root: the data folder.
    """
    if free >= NO_ROOM_BYTES:
        return ""
    return (
        f"The disk of {root} has {free >> 20} MiB left. When it is full Kafka and Postgres stop; nothing "
        "that was acknowledged is lost, and they start again by themselves when there is room. Make room."
    )


def open_folder(path: Path | str, *, least_free: int = LEAST_FREE_BYTES) -> DataFolder:
    """The data folder at `path`, made and marked as ours if it is absent or empty.

    `least_free` is in bytes. Raises FolderRefused when the folder is someone else's, of a newer layout,
    not writable, or its disk is nearly full.
    """
    root = Path(path).expanduser().absolute()
    folder = DataFolder(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        _own(root)
        for part in (folder.logs, folder.status, folder.cache):
            part.mkdir(exist_ok=True)
    except OSError as error:
        raise FolderRefused(
            f"The data folder {root} can't be written ({error.strerror}). Set RAJADA_HOME to one you own."
        ) from error
    free = shutil.disk_usage(root).free
    if free < least_free:
        raise FolderRefused(
            f"The disk of {root} has {free >> 20} MiB left; Kafka and Postgres need {least_free >> 20} MiB "
            "to start safely. Free some space, or set RAJADA_HOME to a folder on another disk."
        )
    return folder


def find_folder(path: Path | str) -> DataFolder | None:
    """The data folder at `path` if there is one; nothing is made.

    Raises FolderRefused when something is there that isn't a data folder of ours.
    """
    root = Path(path).expanduser().absolute()
    try:
        if not root.exists() or not (root / MARKER).exists():
            return None
        _check_marker(root)
        list(root.iterdir())
    except PermissionError as error:
        raise FolderRefused(
            f"The data folder {root} belongs to another user, so nothing can be told of it. Run this as its "
            "owner, or set RAJADA_HOME to a folder of yours."
        ) from error
    return DataFolder(root)


def _own(root: Path) -> None:
    if (root / MARKER).exists():
        _check_marker(root)
        return
    if any(entry.name not in _MADE_BEFORE for entry in root.iterdir()):
        raise FolderRefused(
            f"{root} holds files, but no {MARKER}: it isn't a data folder of Rajada, so nothing is written "
            "there. Set RAJADA_HOME to an empty or new folder."
        )
    # the folder often stands in a checkout; none of it belongs into a repository
    (root / ".gitignore").write_text("*\n")
    write_json(root / MARKER, {"kind": _KIND, "version": LAYOUT_VERSION})


def _check_marker(root: Path) -> None:
    found = read_json(root / MARKER)
    version = found.get("version")
    if found.get("kind") != _KIND or not isinstance(version, int):
        raise FolderRefused(
            f"{root / MARKER} is not the marker of a data folder. Set RAJADA_HOME to another folder, or "
            f"delete {root} if nothing in it is needed."
        )
    if version > LAYOUT_VERSION:
        raise FolderRefused(
            f"{root} was made by a newer Rajada (layout {version}, this one knows {LAYOUT_VERSION}). Update "
            "Rajada, or set RAJADA_HOME to another folder."
        )


def write_json(path: Path, content: dict[str, object], mode: int = 0o644) -> None:
    """Write `content` so that a reader sees the old file or the new one, never a half."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    draft.touch(mode)
    draft.write_text(json.dumps(content, indent=1) + "\n")
    draft.replace(path)


def read_json(path: Path) -> dict[str, object]:
    """The object in `path`; empty when the file is absent or torn."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


class Lock:
    """An exclusive hold on a file, freed by the system when the process ends however it ends."""

    def __init__(self, path: Path, refusal: str) -> None:
        """`refusal` is the message of the AlreadyRunning that a second holder gets."""
        self._path = path
        self._refusal = refusal
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the file."""
        return self._descriptor is not None

    def acquire(self, *, wait: bool = False) -> None:
        """Take the lock; AlreadyRunning if anybody else has it, unless `wait`. Taking it twice is fine."""
        if self._descriptor is not None:
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise AlreadyRunning(self._refusal) from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; fine when it isn't held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
