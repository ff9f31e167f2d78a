"""The real worker, its wall clock ahead by the milliseconds that a file holds.

So a test skips an idle quarter of an hour. Timers count real time: `time.monotonic` goes on as it is. The
worker's Unix time doesn't follow a wall clock that is set, so what that counts by goes ahead, too.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

AHEAD = Path(os.environ["RAJADA_TEST_AHEAD"])
"""Looked at with every question, so that the clock can be set while the worker runs."""

_real_ns, _real_monotonic_ns = time.time_ns, time.monotonic_ns


def _ahead_ns() -> int:
    try:
        return int(AHEAD.read_text()) * 1_000_000
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    time.time_ns = lambda: _real_ns() + _ahead_ns()
    time.monotonic_ns = lambda: _real_monotonic_ns() + _ahead_ns()
    from faust.cli.faust import cli

    sys.argv = ["faust", "-A", "streams", "worker", "--without-web"]
    cli()
