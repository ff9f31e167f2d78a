"""Where the servers are for a command: as the settings name them, else where `rajada up` runs them."""

from __future__ import annotations

from typing import Final

from ops.embedded.folder import find_folder
from ops.errors import NotRunning
from ops.supervision.run_file import RunFile, read_run_file
from settings import Settings

STAND_IN: Final = "engine"
"""The unit that stands in for the agent engine under `rajada up --with-engine`."""

WEB: Final = "web"
"""The unit of the HTTP API."""


def running(settings: Settings) -> RunFile | None:
    """What runs in the data folder now; None when nothing does (a run file alone proves nothing)."""
    folder = find_folder(settings.home)
    run = read_run_file(folder) if folder is not None else None
    return run if run is not None and run.supervisor.alive else None


def bootstrap_of(settings: Settings) -> str:
    """Kafka's bootstrap servers; raises NotRunning when none are named and none run."""
    if settings.kafka_bootstrap_servers:
        return settings.kafka_bootstrap_servers
    run = running(settings)
    if run is None or not run.kafka:
        raise NotRunning(_message(settings, "Kafka", "KAFKA_BOOTSTRAP_SERVERS"))
    return run.kafka


def database_of(settings: Settings) -> str:
    """The database's URL; raises NotRunning when none is named and none runs."""
    if settings.database_url:
        return settings.database_url
    run = running(settings)
    if run is None or not run.database_url:
        raise NotRunning(_message(settings, "Postgres", "DATABASE_URL"))
    return run.database_url


def stand_in_of(settings: Settings) -> str | None:
    """Where turns are POSTed to if a stand-in engine runs in the data folder; the worker knows no other."""
    run = running(settings)
    units = run.units if run is not None else ()
    return next((unit.listens for unit in units if unit.name == STAND_IN and unit.listens), None)


def _message(settings: Settings, what: str, variable: str) -> str:
    return (
        f"No {what} is named, and none runs in {settings.home.absolute()}. Start it with `rajada up`, or set "
        f"{variable}."
    )
