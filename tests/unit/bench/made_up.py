"""Results that nobody measured."""

from __future__ import annotations

from bench.results import Bar, Machine, Result, Table


def result(
    part: str = "main-path",
    tables: tuple[Table, ...] = (),
    bars: tuple[Bar, ...] = (),
    notes: tuple[str, ...] = (),
    failed: str = "",
    quick: bool = False,
) -> Result:
    return Result(
        part=part,
        title="The main path",
        method="How.",
        at="2026-01-02T03:04:05+00:00",
        seconds=90.0,
        quick=quick,
        rounds=3,
        load_before=0.5,
        load_after=1.5,
        machine=Machine("A processor", 2, 8.0, "Linux 6"),
        versions={"Python": "3.11"},
        tables=tables,
        bars=bars,
        notes=notes,
        failed=failed,
    )
