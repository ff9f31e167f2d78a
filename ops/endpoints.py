"""Where the servers are for a command: as the settings name them, else where `rajada up` runs them."""

from __future__ import annotations

from typing import Final

from pydantic import SecretStr

from ops.embedded.folder import find_folder
from ops.errors import NotRunning
from ops.supervision.run_file import RunFile, read_run_file
from settings import Settings

STAND_IN: Final = "engine"
"""The unit that stands in for the agent engine under `rajada up --with-engine`."""

WEB: Final = "web"
"""The unit of the HTTP API."""

WHATSAPP: Final = "whatsapp"
"""The unit that stands in for the WhatsApp Cloud API under `rajada up --with-whatsapp`."""

STAND_IN_NUMBER: Final = "1055"
STAND_IN_TOKEN: Final = "stand-in"
"""With which number the stand-in WhatsApp is spoken to."""

CONNECT: Final = "connect"
"""The unit of Kafka Connect under `rajada up --with-debezium`."""

CONNECT_URL: Final = "http://localhost:8083"
"""Where Kafka Connect is looked for by itself."""

WEB_PORT: Final = 8088
"""Where `rajada web` listens by itself, unless RAJADA_WEB_PORT says another."""


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


def connect_of(settings: Settings) -> str:
    """Where Kafka Connect's REST interface is: as the settings say, else the one of the data folder."""
    if settings.connect_url:
        return settings.connect_url
    run = running(settings)
    units = run.units if run is not None else ()
    return next((unit.listens for unit in units if unit.name == CONNECT and unit.listens), CONNECT_URL)


def web_of(settings: Settings) -> str:
    """Where the HTTP API is asked for: where one listens in the data folder, else as the settings say."""
    run = running(settings)
    units = run.units if run is not None else ()
    host = "127.0.0.1" if settings.web_host == "0.0.0.0" else settings.web_host  # noqa: S104  # it is no bind
    named = f"http://{f'[{host}]' if ':' in host else host}:{settings.web_port or WEB_PORT}"
    return next((unit.listens for unit in units if unit.name == WEB and unit.listens), named)


def stand_in_whatsapp(url: str) -> dict[str, str]:
    """The variables that hand group links, and questions about instances, to a stand-in WhatsApp at a URL."""
    return {
        "WHATSAPP_API_URL": url,
        "WHATSAPP_PHONE_NUMBER_ID": STAND_IN_NUMBER,
        "WHATSAPP_ACCESS_TOKEN": STAND_IN_TOKEN,
        "WHATSAPP_PROBE_URL": f"{url}/instances/{{id}}",
    }


def whatsapp_settings(settings: Settings) -> Settings:
    """The settings, with the stand-in WhatsApp where one runs in the data folder: workers know no other."""
    run = running(settings)
    units = run.units if run is not None else ()
    url = next((unit.listens for unit in units if unit.name == WHATSAPP and unit.listens), None)
    if url is None:
        return settings
    return settings.model_copy(
        update={
            "whatsapp_url": url,
            "whatsapp_phone_number_id": STAND_IN_NUMBER,
            "whatsapp_access_token": SecretStr(STAND_IN_TOKEN),
        }
    )


def _message(settings: Settings, what: str, variable: str) -> str:
    return (
        f"No {what} is named, and none runs in {settings.home.absolute()}. Start it with `rajada up`, or set "
        f"{variable}."
    )
