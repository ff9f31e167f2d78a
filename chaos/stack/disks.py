"""Small disks that can be filled, where file systems may be mounted."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

_FILLING: Final = "filling"
_CHUNK: Final = 1 << 20


class SmallDisk:
    """A file system of its own in memory; `made` is False where none may be mounted: then it is a folder."""

    def __init__(self, folder: Path, size: str | None) -> None:
        """`size` as mount takes it (`1g`); None: none is wanted."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.made = size is not None and self._mount(size)

    def _mount(self, size: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(self.folder)]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False

    def fill(self) -> None:
        """Take all the room that is left, as another tenant of the disk would."""
        if not self.made:
            raise RuntimeError("only a disk of its own may be filled")
        left = shutil.disk_usage(self.folder).free
        with contextlib.suppress(OSError), (self.folder / _FILLING).open("ab", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, max(1, left - _CHUNK))  # quicker than to write it
            file.seek(0, os.SEEK_END)
            while file.write(b"\0" * _CHUNK):
                pass

    def free(self) -> None:
        """Give the room back."""
        (self.folder / _FILLING).unlink(missing_ok=True)

    def remove(self) -> None:
        """Take the disk away with all that is on it."""
        if self.made:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
