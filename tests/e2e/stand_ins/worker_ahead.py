"""The real worker, its wall clock ahead by the milliseconds that a file holds.

So a test skips an idle quarter of an hour. The monotonic clock goes on as it is: timers count real time.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

AHEAD = Path(os.environ["RAJADA_TEST_AHEAD"])
"""Looked at with every question, so that the clock can be set while the worker runs."""

_real_ns = time.time_ns


def _ahead_ns() -> int:
    try:
        return _real_ns() + int(AHEAD.read_text()) * 1_000_000
    except (OSError, ValueError):
        return _real_ns()


if __name__ == "__main__":
    time.time_ns = _ahead_ns
    from faust.cli.faust import cli

    sys.argv = ["faust", "-A", "streams", "worker", "--without-web"]
    cli()
