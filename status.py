"""How a process tells whoever supervises it that it is ready, or what it waits for.

A process calls `report`; the supervisor, `rajada status` and a probe read the file it leaves. Beside it
`counters` leaves what the process has done so far. Nothing happens when nobody asked: the folder is named
by the environment variable `RAJADA_STATUS_DIR`.
This is the lowest layer: it imports nothing of ours, so that every process can use it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

STATUS_DIR = "RAJADA_STATUS_DIR"
"""Environment variable that names the folder of the status files; unset = nobody asks."""

State = Literal["ready", "waiting"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_COUNTERS = ".counters"
"""Between the name and `.json`: no name of a process has a dot."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a process last said about itself; `at` is in Unix seconds, `pid` tells whose word it is."""

    state: State
    reason: str
    at: float
    pid: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What a process has done since its start; `at` in Unix seconds, `pid` tells whose numbers they are."""

    values: dict[str, int | str]
    at: float
    pid: int


_last: dict[str, Report] = {}


def last(name: str) -> Report | None:
    """What this process last reported under a name, whoever asked; None: nothing yet."""
    return _last.get(name)


def report(name: str, state: State, reason: str = "") -> None:
    """Say that the process `name` (`worker`, `relay`, …) is ready, or waiting and why.

    Cheap enough to call on every change, not on every record. A no-op without `RAJADA_STATUS_DIR`.
    A folder that can't be written is ignored on purpose: no process dies because nobody could hear it.
    Raises ValueError for a name that would not make a plain file name.
    """
    said = _last[name] = Report(state=state, reason=reason, at=time.time(), pid=os.getpid())
    _write(name, "", asdict(said))


def counters(name: str, values: Mapping[str, int | str]) -> None:
    """Leave what the process `name` has done since its start: numbers, and short texts about its state.

    For every few seconds. Otherwise as `report`.
    """
    _write(name, _COUNTERS, asdict(Counters(values=dict(values), at=time.time(), pid=os.getpid())))


def _write(name: str, kind: str, content: Mapping[str, object]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"A status name is lower-case letters, digits, '-' or '_', not {name!r}.")
    folder = os.environ.get(STATUS_DIR)
    if not folder:
        return
    target = Path(folder) / f"{name}{kind}.json"
    draft = target.with_suffix(f".{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(content))
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


def read_counters(folder: Path, name: str) -> Counters | None:
    """What `name` last counted into `folder`; None when nothing readable is there."""
    try:
        raw = json.loads((folder / f"{name}{_COUNTERS}.json").read_text())
        values = {
            str(key): value if isinstance(value, int) else str(value) for key, value in raw["values"].items()
        }
        return Counters(values=values, at=float(raw["at"]), pid=int(raw["pid"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def forget(folder: Path, name: str) -> None:
    """Drop what `name` reported, so that a new process of that name isn't taken for ready too early."""
    for kind in ("", _COUNTERS):
        (folder / f"{name}{kind}.json").unlink(missing_ok=True)
