"""What a benchmark found, as plain data: figures by round, bars, and where and when they were measured.

One `Result` a part, kept as `docs/benchmarks/<part>.json`. All arithmetic on figures is here, so that the
terminal, the page and the plots say the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

MACHINE = "machine CPU µs each"
"""A further figure of a line: CPU of the whole machine an event, the servers' work among it (median)."""


class Spread(msgspec.Struct, frozen=True):
    """Least, median and most of some rounds."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(min(values), statistics.median(values), max(values))


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing measured, in its table's unit."""

    name: str
    rounds: tuple[float, ...]
    """One value a round, in the order of the rounds; at least one."""
    of: str = ""
    """Name of the table's line that this one is a ratio of, round by round; empty: of none."""
    cpu_us: tuple[float, ...] = ()
    """CPU microseconds an event (row, job, record) of the processes measured, by round."""
    peak_mib: float | None = None
    """Most resident memory of any round, MiB."""
    wal_bytes: float | None = None
    """Bytes of write-ahead log an event; median of the rounds."""
    series: str = ""
    """In a chart of lines: which of them this point belongs to."""
    x: float | None = None
    """In a chart of lines: where on the axis this point stands."""
    also: dict[str, float] = {}
    """Further figures: name with its unit ("p50 ms") → value, median of the rounds."""
    note: str = ""
    """A word on it: what it leaves out, how it differs."""

    @property
    def spread(self) -> Spread:
        """Of the rounds."""
        return Spread.of(self.rounds)

    @property
    def cpu(self) -> Spread | None:
        """CPU microseconds an event, where it was taken."""
        return Spread.of(self.cpu_us) if self.cpu_us else None


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures side by side: measured in one run, on the same data, in turn."""

    title: str
    unit: str
    """Of the lines' rounds, as "events/s" or "ms"."""
    lines: tuple[Line, ...]
    better: Literal["more", "less"] = "more"
    chart: Literal["bars", "lines", "none"] = "bars"
    x_title: str = ""
    note: str = ""

    def line(self, name: str) -> Line:
        """The line of that name; KeyError without it."""
        for one in self.lines:
            if one.name == name:
                return one
        raise KeyError(name)

    def ratio(self, line: Line) -> Spread | None:
        """Of each round to the same round of the line it names; None when that one is missing."""
        other = next((one for one in self.lines if one.name == line.of), None)
        if other is None:
            return None
        return Spread.of([mine / its for mine, its in zip(line.rounds, other.rounds, strict=False)])


class Bar(msgspec.Struct, frozen=True):
    """What a figure must reach, or is meant to reach one day, and what it is."""

    what: str
    value: float
    sign: Literal["≥", "≤", "="]
    limit: float
    unit: str = ""
    goal: bool = False
    """Beyond the bars: told, but a run that misses it has not failed."""

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        if self.sign == "=":
            return self.value == self.limit
        return self.value >= self.limit if self.sign == "≥" else self.value <= self.limit

    @property
    def missed(self) -> bool:
        """Whether it had to be reached and is not: what `--strict` fails for."""
        return not (self.met or self.goal)

    @property
    def verdict(self) -> str:
        """A word on it."""
        if self.goal:
            return "goal reached" if self.met else "goal ahead"
        return "met" if self.met else "missed"


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured."""

    processor: str
    cores: int
    memory_gib: float
    system: str


class Found(msgspec.Struct, kw_only=True):
    """What a part's run gives back."""

    tables: list[Table] = []
    bars: list[Bar] = []
    notes: list[str] = []
    """What was smaller than asked, left out, or failed while the rest went on; a sentence each."""
    versions: dict[str, str] = {}
    """Of servers and peers that took part."""
    peers_method: str = ""
    """How the peers that took part were measured, for the page; empty: none did."""
    failed: list[str] = []
    """Pieces that ended before their end while the others went on, and why."""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part as it is kept."""

    part: str
    title: str
    method: str
    at: str
    """When it began, ISO 8601 in UTC."""
    seconds: float
    quick: bool
    rounds: int
    load_before: float
    """Average load of the machine over the minute before."""
    load_after: float
    machine: Machine
    versions: dict[str, str]
    tables: tuple[Table, ...] = ()
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = ()
    peers_method: str = ""
    """How the peers were measured, as it was then; empty: none took part."""
    failed: str = ""
    """Why it ended before its end; what it had found by then is kept."""


def save(result: Result, folder: Path) -> Path:
    """Write `<part>.json`; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{result.part}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return file


def load(file: Path) -> Result:
    """Read what `save` wrote. Raises msgspec.ValidationError for anything else."""
    return msgspec.json.decode(file.read_bytes(), type=Result)


def number(value: float) -> str:
    """Three figures or all digits before the point: 12,345, 123, 12.3, 1.23, 0.05."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
