"""`rajada connector`: Debezium's connectors on Kafka Connect, made, looked at, removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from ops.cdc.condition import Seen
    from ops.cdc.connectors import Connectors
    from ops.cdc.rest import Connect
    from settings import Settings

app = typer.Typer(
    help="Debezium's connectors, which publish the event log in place of the relay.", no_args_is_help=True
)

Files = Annotated[
    Path | None,
    typer.Option(help="Folder with the connectors' files; deploy/connect of the repository else."),
]
Url = Annotated[
    str | None,
    typer.Option(help="Kafka Connect's REST interface; RAJADA_CONNECT_URL, or where it runs, else."),
]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for Kafka Connect to answer.")]

_NOT_WELL = 10


@app.command("register")
def register(
    files: Files = None,
    url: Url = None,
    wait: Wait = 0.0,
    pass_refused: Annotated[
        bool, typer.Option("--pass-refused", help="Leave out records that Kafka refuses, until run without.")
    ] = False,
    json: Json = False,
) -> None:
    """Bring the connectors to run as their files say, with publication and slot; heals a lost slot.

    Where all is well nothing is changed. A slot that is missing or lost is made anew, and what it missed is
    read from the table first. Exit code 11 if a connector does not come to run in a minute.
    """
    from ops.endpoints import bootstrap_of

    settings = _settings()
    with _connect(settings, url, wait) as connect:
        of = _connectors(settings, connect, files)
        say = (lambda _: None) if json else typer.echo
        done = of.register(bootstrap_of(settings), settings, say, pass_refused=pass_refused)
    if json:
        _print({"connectors": done})
    for one in [] if json else done:
        what = "registered" if one.changed else "was registered as it must be"
        slot = ", with a new slot" if one.new_slot else ""
        typer.echo(f"{one.name}: {what}{slot}; {one.state.lower()}")


@app.command("status")
def status(files: Files = None, url: Url = None, json: Json = False) -> None:
    """Show the connectors: state, how far behind, last sign of life. Exit code 10 if one is not well."""
    settings = _settings()
    with _connect(settings, url, 0.0) as connect:
        seen = _connectors(settings, connect, files).status()
    if json:
        _print({"connectors": [{**_as_dict(one), "trouble": one.trouble} for one in seen]})
    for one in [] if json else seen:
        typer.echo(_line(one))
    if any(one.trouble for one in seen):
        raise typer.Exit(_NOT_WELL)


@app.command("remove")
def remove(
    files: Files = None,
    url: Url = None,
    without_connect: Annotated[
        bool,
        typer.Option("--without-connect", help="Kafka Connect is gone: remove what is in Postgres alone."),
    ] = False,
    json: Json = False,
) -> None:
    """Remove the connectors with their slots and publications, so that the relay may publish again.

    Nothing is lost: whoever publishes next reads from the table what was written meanwhile.
    """
    settings = _settings()
    with _connect(settings, url, 0.0) as connect:
        removed = _connectors(settings, connect, files).remove(without_connect=without_connect)
    if json:
        _print({"removed": removed})
    else:
        typer.echo("\n".join(f"removed {what}" for what in removed) or "There was nothing to remove.")


def _settings() -> Settings:
    from logs import configure_logging
    from settings import get_settings

    settings = get_settings()
    configure_logging(settings)
    return settings


def _connect(settings: Settings, url: str | None, wait_s: float) -> Connect:
    from ops.cdc.rest import Connect
    from ops.endpoints import connect_of

    connect = Connect(url or connect_of(settings))
    if wait_s:
        connect.wait_up(wait_s)
    return connect


def _connectors(settings: Settings, connect: Connect, files: Path | None) -> Connectors:
    from ops.cdc.connectors import Connectors
    from ops.cdc.files import connectors
    from ops.endpoints import database_of

    url = database_of(settings)
    return Connectors(connectors(settings, url, files), connect, url)


def _line(one: Seen) -> str:
    slot = one.slot
    behind = f", {slot.lag_bytes / (1 << 20):.1f} MB behind" if slot is not None else ", no slot"
    alive = f", last sign of life {one.silent_s:.0f} s ago" if one.silent_s is not None else ""
    trouble = f"\n  {one.trouble.found} → {one.trouble.advice}" if one.trouble is not None else ""
    return f"{one.name}: {one.condition.state.lower()}{behind}{alive}{trouble}"


def _as_dict(one: Seen) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(one)


def _print(told: dict[str, object]) -> None:
    import msgspec

    typer.echo(msgspec.json.encode(told).decode())
