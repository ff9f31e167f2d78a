"""How a process tells whoever supervises it that it is ready, or what it waits for.

A process calls `report`; the supervisor, `rajada status` and a probe read the file it leaves. Nothing
happens when nobody asked: the folder is named by the environment variable `RAJADA_STATUS_DIR`.
This is the lowest layer: it imports nothing of ours, so that every process can use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

STATUS_DIR = "RAJADA_STATUS_DIR"
"""Environment variable that names the folder of the status files; unset = nobody asks."""

State = Literal["ready", "waiting"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Report:
    """What a process last said about itself; `at` is in Unix seconds, `pid` tells whose word it is."""

    state: State
    reason: str
    at: float
    pid: int


def report(name: str, state: State, reason: str = "") -> None:
    """Say that the process `name` (`worker`, `relay`, …) is ready, or waiting and why.

    Cheap enough to call on every change, not on every record. A no-op without `RAJADA_STATUS_DIR`.
    A folder that can't be written is ignored on purpose: no process dies because nobody could hear it.
    Raises ValueError for a name that would not make a plain file name.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"A status name is lower-case letters, digits, '-' or '_', not {name!r}.")
    folder = os.environ.get(STATUS_DIR)
    if not folder:
        return
    said = Report(state=state, reason=reason, at=time.time(), pid=os.getpid())
    target = Path(folder) / f"{name}.json"
    draft = target.with_suffix(f".{said.pid}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(asdict(said)))
        draft.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


def read(folder: Path, name: str) -> Report | None:
    """What `name` last reported into `folder`; None when nothing readable is there."""
    try:
        raw = json.loads((folder / f"{name}.json").read_text())
        return Report(
            state="ready" if raw["state"] == "ready" else "waiting",
            reason=str(raw["reason"]),
            at=float(raw["at"]),
            pid=int(raw["pid"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget(folder: Path, name: str) -> None:
    """Drop what `name` reported, so that a new process of that name isn't taken for ready too early."""
    (folder / f"{name}.json").unlink(missing_ok=True)
