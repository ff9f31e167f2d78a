"""`rajada doctor`: look at everything, change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from ops.doctor.findings import Finding

_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"), "skip": ("·", "dim")}


def doctor(json: Json = False) -> None:
    """Check servers, topics, tables, replication, who else is at work, and how far everything is.

    Each check is ok, a warning (it works, but look at it) or a failure (messages are not answered, or may be
    answered twice), with what to do. Exit code 0, also with warnings; 10 if a check failed.
    """
    from rich.console import Console

    from ops.doctor.findings import exit_code
    from ops.doctor.visit import visit
    from settings import get_settings

    findings = visit(get_settings())
    if json:
        typer.echo(_as_json(findings))
    else:
        _show(findings, Console(highlight=False))
    raise typer.Exit(exit_code(findings))


def _show(findings: Sequence[Finding], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from ops.doctor.findings import summary

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    area = ""
    for finding in _together(findings):
        mark, style = _MARKS[finding.level]
        said = Text(finding.found, "dim" if finding.level == "skip" else "")
        if finding.advice:
            said.append(f"\n→ {finding.advice}", style)
        table.add_row(
            Text(mark, style), Text("" if finding.area == area else finding.area), finding.check, said
        )
        area = finding.area
    console.print(table)
    console.print(f"{summary(findings)}.", markup=False)


def _together(findings: Sequence[Finding]) -> Iterator[Finding]:
    """What was not checked for one reason in one line."""
    from dataclasses import replace
    from itertools import groupby

    for (_, level, found), group in groupby(findings, lambda one: (one.area, one.level, one.found)):
        alike = list(group)
        if level == "skip" and len(alike) > 1:
            names = ", ".join(one.check for one in alike)
            yield replace(alike[0], check="others", found=f"{found} ({names})")
        else:
            yield from alike


def _as_json(findings: Sequence[Finding]) -> str:
    import msgspec

    from ops.doctor.findings import exit_code, summary

    told = {"summary": summary(findings), "exit_code": exit_code(findings), "checks": findings}
    return msgspec.json.encode(told).decode()
