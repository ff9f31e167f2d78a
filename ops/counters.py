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
    ("postponed", "of a newer version, tried again later"),
    ("dead_letters", "dead letters"),
)
_ENDS: Final = (
    ("jobs", "jobs"),
    ("dead", "dead"),
    ("emptied", "known before"),
    ("handed_over", "handed over"),
    ("open", "open"),
)
_LINKS: Final = (
    ("group_links_enqueued", "on their way"),
    ("group_links_invalid", "invalid"),
    ("group_links_rekeyed", "put under their key"),
    ("group_links_postponed", "of a newer version, tried again later"),
    ("group_links_dead", "dead letters"),
)
_ATTEMPTS: Final = (
    ("attempts_done", "done"),
    ("attempts_delayed", "to be tried again"),
    ("attempts_failed", "vetoed"),
    ("attempts_dead", "dead"),
    ("attempts_held", "held"),
    ("attempts_handed_back", "handed back"),
    ("attempts_lost", "lost with a worker"),
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
    if "late_records" in values:
        return _delays(name, values)
    if "ticks_missed" in values:
        return _reconciler(name, values)
    if "read" not in values:
        return [f"{name}: " + ", ".join(f"{key} {_number(value)}" for key, value in values.items())]
    stops = {key.removeprefix("stop:"): n for key, n in values.items() if key.startswith("stop:")}
    ends = [*_told(values, _ENDS[:1]), *(f"{_number(n)} {reason}" for reason, n in stops.items())]
    ends += _told(values, _ENDS[1:])
    windows, found = _sum(values, ("recovered", "opened")), int(values.get("recovered", 0))
    sweep = values.get("sweep")
    more = [
        f"{windows:,} windows" + (f", {found:,} of them found at the start" if found else "") + _list(ends),
        *(_jobs(values) if "attempts" in values else []),
        *(_group_links(values) if values.get("group_links_read") else []),
        *([f"sweep {sweep}; {_number(values.get('swept', 0))} published again"] if sweep else []),
    ]
    indent = " " * (len(name) + 2)
    return [
        f"{name}: {_number(values['read'])} events read" + _list(_told(values, _PLACES)),
        *(indent + line for line in more),
    ]


def _group_links(values: Values) -> list[str]:
    return [f"{_number(values['group_links_read'])} group links read" + _list(_told(values, _LINKS))]


def _jobs(values: Values) -> list[str]:
    """What the executor does and did. An attempt is counted when it begins, and again when it has ended."""
    running, waiting = int(values.get("jobs_running", 0)), int(values.get("jobs_waiting", 0))
    asleep = int(values.get("session_waits", 0))
    elsewhere, paused = int(values.get("jobs_elsewhere", 0)), values.get("jobs_paused")
    postponed = int(values.get("jobs_postponed", 0))
    return [
        f"{_count(running, 'job')} running, {_count(waiting, 'contact')} waiting; "
        f"{_count(int(values['attempts']), 'attempt')}" + _list(_told(values, _ATTEMPTS)),
        *([f"{_count(elsewhere, 'job')} left to the CRM's own workers"] if elsewhere else []),
        *([f"{_count(postponed, 'job')} of a newer version, tried again later"] if postponed else []),
        *([f"{_count(asleep, 'job')} found a channel session that doesn't work"] if asleep else []),
        *([f"paused: {paused}; `rajada resume` lets their jobs go on"] if paused else []),
    ]


def _delays(name: str, values: Values) -> list[str]:
    """What the forwarder of the delay topics holds and did."""
    late = int(values["late_records"])
    lateness = (
        f"; in the last minute {_count(late, 'record')}, {values.get('late_p50_ms')} ms late "
        f"(99 %: {values.get('late_p99_ms')} ms)"
        if late
        else ""
    )
    dead = _told(values, (("dead", "dead letters"), ("undone", "transactions made again")))
    return [
        f"{name}: {_number(values.get('held', 0))} records at hand, "
        f"{_number(values.get('due', 0))} sent back to run{lateness}"
        + (f"; {', '.join(dead)}" if dead else "")
    ]


def _reconciler(name: str, values: Values) -> list[str]:
    """What the runs of the reconciler did, and which ticks of its schedule came to none."""
    done = _told(
        values,
        (
            ("moved", "instances moved"),
            ("skipped", "left as they were"),
            ("opened", "notifications opened"),
            ("resolved", "resolved"),
            ("runs_failed", "runs failed"),
            ("unknown_states", "instances in unknown states"),
            ("ticks_skipped", "ticks skipped"),
            ("ticks_missed", "ticks missed"),
        ),
    )
    runs = int(values.get("runs", 0))
    return [f"{name}: {_count(runs, 'run')} (last: {values.get('last')})" + _list(done)]


def _told(values: Values, names: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{_number(values[name])} {words}" for name, words in names if values.get(name)]


def _list(parts: list[str]) -> str:
    return f": {', '.join(parts)}" if parts else ""


def _sum(values: Values, names: Iterable[str]) -> int:
    return sum(int(values.get(name, 0)) for name in names)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _number(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
