"""A run's result, for a reader and as JSON."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from chaos.stack.runner import Report


def show(report: Report, console: Console) -> None:
    """Print what was done, what was put in, and what is wrong."""
    done = Table(title=f"Chaos, seed {report.seed}, {report.seconds:.0f} s", title_justify="left")
    done.add_column("")
    done.add_column("", justify="right")
    for name in ("events", "jobs", "calls", "links"):
        done.add_row(name, f"{getattr(report, name):,}")
    done.add_row("faults made", f"{sum(report.made.values())} of {report.planned}")
    done.add_row("kinds", ", ".join(f"{name} {count}" for name, count in sorted(report.made.items())))
    done.add_row("settled after", f"{report.settled_s} s")
    for name, exits in sorted(report.exits.items()):
        done.add_row(f"ends of {name}", ", ".join(f"{how}: {count}" for how, count in sorted(exits.items())))
    console.print(done)
    for line in report.not_made:
        console.print(f"[yellow]not made[/] {line}")
    if not report.findings:
        console.print(
            "[green]Every event has one end, every effect was had once, in order, nothing early.[/]"
        )
        return
    wrong = Table(title="Findings", title_justify="left")
    for name in ("rule", "how many", "such as"):
        wrong.add_column(name)
    for one in report.findings:
        wrong.add_row(one.rule, f"{one.count:,}", "\n".join(one.examples))
    console.print(wrong)


def as_json(report: Report) -> bytes:
    """All but the books."""
    told = {one.name: getattr(report, one.name) for one in dataclasses.fields(report) if one.name != "books"}
    return orjson.dumps(told, option=orjson.OPT_INDENT_2, default=_plain)


def keep_books(report: Report, file: Path) -> None:
    """Write the books down, for whoever looks after a finding."""
    file.write_bytes(orjson.dumps(report.books, option=orjson.OPT_NON_STR_KEYS, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
