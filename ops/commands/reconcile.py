"""`rajada reconcile`: order a run of the reconciler, make one here, or look at what runs did."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from settings import Settings
    from streams.reconcile.ledger import Past
    from streams.reconcile.store import Preview

_SHORT = 36
"""Characters of an error that fit into the table."""
_WIDE = 140
"""Columns where nobody looks at a terminal: nothing is cut."""


def reconcile(
    once: Annotated[
        bool, typer.Option("--once", help="Make the run here: no reconciler and no Kafka needed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what a run would do, by age alone; change nothing.")
    ] = False,
    history: Annotated[bool, typer.Option("--history", help="Show the last runs.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="With --history: so many.")] = 20,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the run that was ordered.")] = 120.0,
    json: Json = False,
) -> None:
    """Look for stuck WhatsApp instances and rebuild the notifications, as is done every five minutes.

    Without options the running reconciler is asked, through its topic, and its run is shown. Exit code 5: a
    run goes on already; 10: the run failed; 11: nobody took the order.
    """
    import asyncio

    from logs import configure_logging
    from settings import get_settings

    settings = get_settings()
    configure_logging(settings)
    asyncio.run(
        _act(settings, once=once, dry_run=dry_run, history=limit if history else 0, wait=wait, json=json)
    )


async def _act(
    settings: Settings, *, once: bool, dry_run: bool, history: int, wait: float, json: bool
) -> None:
    from rich.console import Console

    from ops.endpoints import bootstrap_of, database_of
    from ops.reconcile import check, desk, order

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDE)
    async with desk(database_of(settings), settings) as at:
        if history:
            _show_history(await at.history(history), console, json=json)
            return
        if dry_run:
            _show_preview(await at.preview(), console, json=json)
            return
        if once:
            past = await at.once()
        else:
            past = await at.answered(order(bootstrap_of(settings), settings), wait)
    if json:
        typer.echo(json_.dumps(_as_json(past)))
    else:
        for line in _lines(past):
            console.print(line, markup=False, soft_wrap=True)
    check(past)


def _lines(past: Past) -> list[str]:
    """A run in words."""
    from ops.numbers import several

    told = [
        f"{several(past.moved, 'instance')} moved, {past.skipped:,} left as they were "
        f"(of {past.reserved:,} that were stuck), in {past.took_s:.1f} s."
    ]
    facts = json_.loads(past.facts)
    for name, title in (("moved", "moved"), ("skipped", "left"), ("unknown", "in a state that is not known")):
        told += [f"  {count:,} {title}: {reason}" for reason, count in facts.get(name, {}).items()]
    told.append(f"{several(past.opened, 'notification')} opened, {past.resolved:,} resolved.")
    return told


def _show_preview(preview: Preview, console: Console, *, json: bool) -> None:
    parts = {
        "moves": preview.moves,
        "left": preview.left,
        "opens": preview.opens,
        "resolves": preview.resolves,
    }
    if json:
        typer.echo(json_.dumps(parts))
        return
    words = {
        "moves": "stuck in {} would be moved on",
        "left": "in the unknown state {} would be left alone",
        "opens": "notifications {} would open, as things are before the moves",
        "resolves": "notifications {} would be resolved",
    }
    lines = [
        f"{count:,} {words[part].format(name)}"
        for part, counts in parts.items()
        for name, count in counts.items()
    ]
    for line in lines or ["There is nothing to do."]:
        console.print(line, markup=False, soft_wrap=True)


def _show_history(runs: list[Past], console: Console, *, json: bool) -> None:
    if json:
        typer.echo(json_.dumps([_as_json(past) for past in runs]))
        return
    if not runs:
        console.print("There was no run yet.")
        return
    console.print(_table(runs))


def _table(runs: list[Past]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("BEGAN", "WHY", "END"):
        table.add_column(title, no_wrap=True)
    for title in ("TOOK", "RESERVED", "MOVED", "SKIPPED", "OPENED", "RESOLVED"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("ERROR")
    for one in runs:
        counts = (one.reserved, one.moved, one.skipped, one.opened, one.resolved)
        table.add_row(
            f"{one.began_at.astimezone():%Y-%m-%d %H:%M:%S}",
            one.kind,
            one.state,
            f"{one.took_s:.1f} s",
            *(f"{count:,}" if count else "" for count in counts),
            (one.error or "")[:_SHORT],
        )
    return table


def _as_json(past: Past) -> dict[str, object]:
    return {
        "id": past.id,
        "kind": past.kind,
        "tick": past.tick.isoformat() if past.tick is not None else None,
        "state": past.state,
        "owner": past.owner,
        "began_at": past.began_at.isoformat(),
        "ended_at": past.ended_at.isoformat() if past.ended_at is not None else None,
        "took_s": round(past.took_s, 3),
        "reserved": past.reserved,
        "moved": past.moved,
        "skipped": past.skipped,
        "opened": past.opened,
        "resolved": past.resolved,
        "facts": json_.loads(past.facts),
        "error": past.error,
    }
