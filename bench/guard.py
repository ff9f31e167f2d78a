"""The guard against getting slower: CPU an event of the worker beside the plain loop's, as it was and as it
is.

The ratio of two processes on the same machine in the same run moves little with the machine; the wall clock
and CPU alone do. `guard.json` holds the ratio that was committed: medians of the rounds of one quick run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from bench.results import Result

FILE = Path(__file__).with_name("guard.json")
ALLOWED = 1.30
"""How much of the committed ratio a run may have (a third of it is noise on a busy machine)."""
PART = "main-path"
OURS, PLAIN = "ours", "plain-loop"


class Committed(msgspec.Struct, frozen=True):
    """What `guard.json` holds."""

    cpu_ratio: float
    """CPU µs an event of the worker, over that of the plain loop."""
    at: str
    """When it was measured, ISO 8601."""


def cpu_ratio(results: Sequence[Result]) -> float | None:
    """The ratio of the medians in the first table that has both; None where none has."""
    for table in (table for one in results if one.part == PART for table in one.tables):
        lines = {line.name: line.cpu for line in table.lines}
        ours, plain = lines.get(OURS), lines.get(PLAIN)
        if ours is not None and plain is not None:
            return ours.median / plain.median
    return None


def passes(ratio: float, committed: float) -> bool:
    """Whether a ratio is no more than 30 % worse than the committed one."""
    return ratio <= committed * ALLOWED


def judge(results: Sequence[Result], say: Console, *, commit: bool = False, file: Path = FILE) -> bool:
    """Tell the ratio and what it is compared with; False when it got worse than allowed.

    `commit`: keep this one instead. A run without both lines has nothing to say and passes.
    """
    ratio = cpu_ratio(results)
    if ratio is None:
        say.print("guard: no worker beside a plain loop was measured")
        return True
    if commit:
        at = next(one.at for one in results if one.part == PART)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(Committed(round(ratio, 3), at))) + b"\n")
    committed = msgspec.json.decode(file.read_bytes(), type=Committed).cpu_ratio
    kept = passes(ratio, committed)
    say.print(
        f"guard: CPU an event {ratio:.2f} of the plain loop's; committed {committed:.2f}, "
        f"at most {committed * ALLOWED:.2f}: {'[green]kept' if kept else '[red]WORSE'}"
    )
    return kept
