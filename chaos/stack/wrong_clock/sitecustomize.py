"""Makes this process' wall clock as wrong as a file says; Python loads it before anything else.

`chaos.stack.clock` puts this folder on the PYTHONPATH of the processes whose clocks are to be set. The
monotonic clock and what waits by it stay as they are.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

FILE: Final = Path(os.environ.get("CHAOS_CLOCK_FILE", ""))
LOOK_EVERY_S: Final = 0.5

_true_ns = time.time_ns
_wrong_ns, _look_at = 0, 0.0


def time_ns() -> int:
    """Unix ns, as wrong as the file said half a second ago at the most."""
    global _wrong_ns, _look_at
    now = time.monotonic()
    if now >= _look_at:
        _look_at = now + LOOK_EVERY_S
        try:
            _wrong_ns = int(FILE.read_text())
        except (OSError, ValueError):
            _wrong_ns = 0
    return _true_ns() + _wrong_ns


def seconds() -> float:
    """Unix seconds, as wrong."""
    return time_ns() / 1e9


if "CHAOS_CLOCK_FILE" in os.environ:
    time.time_ns, time.time = time_ns, seconds
