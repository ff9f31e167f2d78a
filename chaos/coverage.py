"""What the workers of a run went through: a run that meets nothing proves nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from .workers import Workers

_TOLD = {
    "rebalances": r"Successfully synced group",
    "recoveries": r"table recovered",
    "snapshots read": r"snapshot read",
    "commits refused": r"commit refused",
    "changelogs read again": r"reading a changelog again",
    "positions put back": r"fetched elsewhere",
    "fences refused": r"FenceRefused",
    "leases lost": r"LeaseLost",
    "deliveries given up": r"wasn't delivered",
}
"""What is counted, by what a worker's log says."""
_COUNTERS = {"stale": "stale fetches", "holes": "offsets without a record"}
WANTED = (
    "join", "kill", "term", "stop", "woken after its session", "broker kill", "rebalances", "recoveries",
    "recoveries cut short", "snapshots read", "state kept or followed", "stale fetches",
    "workers that ended themselves",
)  # fmt: skip
"""What a series has to meet."""


def coverage(workers: Workers, session_s: float) -> Counter[str]:
    """How often each thing happened in a run."""
    found: Counter[str] = Counter()
    stopped: dict[int | None, float] = {}
    for at, what, worker in workers.injuries:
        found[what] += 1
        if what == "stop":
            stopped[worker] = at
        if what == "cont" and at - stopped.get(worker, at) > session_s:
            found["woken after its session"] += 1
    for one in workers.all:
        text = one.log.read_text(errors="replace")
        for name, pattern in _TOLD.items():
            found[name] += len(re.findall(pattern, text))
        found["state kept or followed"] += len(re.findall(r"table recovered\s+keys=[1-9]\d*.*read=0 ", text))
        if "table recovered" in text or "Restoring state" in text:
            ended = len(re.findall(r"table recovered.*table=counts", text))
            found["recoveries cut short"] += max(0, text.count("Successfully synced group") - ended)
        for word, name in _COUNTERS.items():
            last = re.findall(rf"COUNTERS.*{word}=(\d+)", text)
            found[name] += int(last[-1]) if last else 0
        found["workers that ended themselves"] += one.process.poll() == 70
    return found


def missing(found: Counter[str], wanted: Iterable[str] = WANTED) -> list[str]:
    """What a series should have met and didn't."""
    return [name for name in wanted if not found[name]]
