"""Part `recovery`: a million contacts recovered, and dead letters requeued."""

from __future__ import annotations

import statistics

from bench import dlq
from bench.dlq import Requeued
from bench.part import Run
from bench.recovery import Recovered, both, filled
from bench.results import Bar, Line, Table

BAR_RECOVERY_S = 30
GOAL_RECOVERY_S = 10
GOAL_RESTART_S = 3
"""From the start of the process, where its disk is."""
BAR_MEMORY_MIB = 1_024
BAR_CONTACTS = 1_000_000
"""The bars are those of a million."""
LETTERS = 100_000
UNLIMITED = "1000000"
"""Letters a second that the command is allowed: more than it can."""


def run(run: Run) -> None:
    """Both."""
    run.piece("recovery", lambda: _recovery(run))
    run.piece("dead letters", lambda: _letters(run))


def _recovery(run: Run) -> None:
    keys = run.size("contacts", BAR_CONTACTS)
    bootstrap = run.at.bootstrap
    changelog, disk = [], []
    with filled(bootstrap, keys) as name:
        for number in range(run.rounds):
            first, again = both(bootstrap, name, keys)
            changelog.append(first)
            disk.append(again)
            run.say(f"round {number + 1}: changelog {first.seconds:.1f} s, disk {again.seconds:.1f} s")
    lines = (_line("from the changelog", changelog), _line("from its disk", disk))
    title = f"Recovery of {keys:,} contacts with an open window"
    run.found.tables.append(Table(title=title, unit="s", lines=lines, better="less"))
    if keys < BAR_CONTACTS:
        run.found.notes.append(f"recovery of {keys:,} contacts instead of {BAR_CONTACTS:,}: no bar")
        return
    what = f"recovery of {keys:,} contacts"
    run.found.bars += [
        Bar(f"{what}, {line.name}", line.spread.median, "≤", BAR_RECOVERY_S, "s") for line in lines
    ]
    took, restart = lines[0].spread.median, statistics.median(one.until_ready_s for one in disk)
    run.found.bars += [
        Bar(f"{what}, {lines[0].name}", took, "≤", GOAL_RECOVERY_S, "s", goal=True),
        Bar(f"restart with {keys:,} contacts", restart, "≤", GOAL_RESTART_S, "s", goal=True),
    ]
    most = max(one.peak_mib for one in (*changelog, *disk))
    run.found.bars.append(Bar(f"{keys:,} open windows, most memory", most, "≤", BAR_MEMORY_MIB, "MiB"))


def _line(name: str, found: list[Recovered]) -> Line:
    return Line(
        name=name,
        rounds=tuple(round(one.seconds, 2) for one in found),
        cpu_us=tuple(round(one.cpu_s / one.keys * 1e6, 2) for one in found),
        peak_mib=max(one.peak_mib for one in found),
        also={"s from the start of the process": max(round(one.until_ready_s, 1) for one in found)},
        note="CPU a contact",
    )


def _letters(run: Run) -> None:
    letters = run.size("letters", LETTERS)
    as_it_comes, unlimited = list[Requeued](), list[Requeued]()
    for number in range(run.rounds):
        for found, rate in ((as_it_comes, None), (unlimited, UNLIMITED)):
            found.append(dlq.measure(run.at, letters, rate))
            if found[-1].arrived != letters:
                raise RuntimeError(f"{found[-1].arrived} copies of {letters} letters: {found[-1].copies}")
            run.say(
                f"round {number + 1}: {letters:,} letters requeued in {found[-1].seconds:.1f} s, "
                f"at most {rate or '5000'} a second"
            )
    lines = (
        _requeued("rajada dlq requeue", as_it_comes, "held to 5,000 letters a second"),
        _requeued(f"rajada dlq requeue --rate {UNLIMITED}", unlimited, "as fast as it can"),
    )
    note = "The whole command, its start too."
    title = f"{letters:,} dead letters requeued"
    run.found.tables.append(Table(title=title, unit="letters/s", lines=lines, chart="none", note=note))
    slowest = max(one.seconds for one in as_it_comes)
    if letters >= LETTERS:
        run.found.bars.append(Bar(title, slowest, "≤", dlq.BAR_S, "s"))


def _requeued(name: str, found: list[Requeued], note: str) -> Line:
    return Line(
        name=name,
        rounds=tuple(round(one.letters / one.seconds, 1) for one in found),
        cpu_us=tuple(round(one.cpu_s / one.letters * 1e6, 1) for one in found),
        peak_mib=max(one.peak_mib for one in found),
        also={"letters/s while copying": round(max(one.letters / one.copying_s for one in found), 1)},
        note=note,
    )
