"""What the processes have counted since they started, for `rajada status` (see `status.counters`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import status
from ops.supervision.run_file import UnitView

Values = Mapping[str, int | str]

_PLACES: Final = (
    ("opened", "opened a window"),
    ("joined", "joined one"),
    ("duplicate", "known before"),
    ("applied_before", "applied before"),
    ("invalid_payload", "invalid"),
    ("rekeyed", "put under their key"),
    ("dead_letters", "dead letters"),
)
_ENDS: Final = (
    ("jobs", "jobs"),
    ("dead", "dead"),
    ("emptied", "known before"),
    ("handed_over", "handed over"),
    ("open", "open"),
)


def counted(folder: Path, units: Iterable[UnitView]) -> dict[str, Values]:
    """The numbers of every process that runs and counts; those of one before it are left out."""
    found: dict[str, Values] = {}
    for unit in units:
        counters = status.read_counters(folder, unit.name)
        if counters is not None and counters.pid == unit.pid:
            found[unit.name] = counters.values
    return found


def lines(name: str, values: Values) -> list[str]:
    """The numbers of a process for people; of one that we don't know, as they are."""
    if "read" not in values:
        return [f"{name}: " + ", ".join(f"{key} {_number(value)}" for key, value in values.items())]
    stops = {key.removeprefix("stop:"): n for key, n in values.items() if key.startswith("stop:")}
    ends = [*_told(values, _ENDS[:1]), *(f"{_number(n)} {reason}" for reason, n in stops.items())]
    ends += _told(values, _ENDS[1:])
    windows = _sum(values, ("recovered", "opened"))
    sweep = values.get("sweep")
    return [
        f"{name}: {_number(values['read'])} events read" + _list(_told(values, _PLACES)),
        f"{' ' * len(name)}  {windows:,} windows" + _list(ends),
        *(
            [f"{' ' * len(name)}  sweep {sweep}; {_number(values.get('swept', 0))} published again"]
            if sweep
            else []
        ),
    ]


def _told(values: Values, names: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{_number(values[name])} {words}" for name, words in names if values.get(name)]


def _list(parts: list[str]) -> str:
    return f": {', '.join(parts)}" if parts else ""


def _sum(values: Values, names: Iterable[str]) -> int:
    return sum(int(values.get(name, 0)) for name in names)


def _number(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
