"""The shipped configuration of Kafka Connect (`deploy/connect`), and how a connector's file is filled.

In a connector's file `${NAME}` is replaced by us when it is registered; `${env:NAME}` stays, for Kafka
Connect reads it from its own environment: so no password goes over the wire, or into a topic. The worker's
file has the second kind only, and is used as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from psycopg.conninfo import conninfo_to_dict

from ops.errors import CannotRunHere
from schemas.topic_names import GROUP_LINKS, SOURCE
from settings import RajadaError, Settings

WORKER: Final = "worker.properties"
FILES: Final = {"dispatch.json": SOURCE, "group_links.json": GROUP_LINKS}
"""A connector's file → the event type that it publishes."""

_FOLDER: Final = Path(__file__).resolve().parents[2] / "deploy" / "connect"
_VARIABLE: Final = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_LONGEST_NAME: Final = 63


class WrongConnectorFile(RajadaError):
    """A connector's file can't be used; the message says what is wrong with it."""


class _Draft(msgspec.Struct, frozen=True):
    name: str
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector as it is registered. Its name is that of its slot and its publication, too."""

    name: str
    event_type: str
    config: dict[str, str]

    @property
    def heartbeat_topic(self) -> str:
        """Full name of the topic that its heartbeats go to."""
        return f"{self.config['topic.heartbeat.prefix']}.{self.config['topic.prefix']}"


def shipped(name: str, folder: Path | None = None) -> str:
    """The text of a shipped file.

    Raises CannotRunHere where the files did not come along, WrongConnectorFile for one that is no text.
    """
    place = (folder or _FOLDER) / name
    try:
        return place.read_text(encoding="utf-8")
    except OSError as error:
        raise CannotRunHere(
            f"{place} can't be read ({error.strerror}). The files of Kafka Connect are in deploy/connect of "
            "Rajada's repository: give their folder with --files, or run from a checkout."
        ) from error
    except UnicodeDecodeError as error:
        raise WrongConnectorFile(f"{place} is no UTF-8 (byte {error.start})") from error


def variables(settings: Settings, database_url: str) -> dict[str, str]:
    """What a connector's file may name, with its values.

    Args:
        settings: names of slot and topics, exactly-once, the heartbeat's interval.
        database_url: the database as we reach it (libpq URL), unless the settings have one for Debezium.

    Raises:
        WrongConnectorFile: the URL names several hosts or a socket, which Debezium does not take.
    """
    login = conninfo_to_dict(_login(settings, database_url))
    place = {name: str(value) for name, value in login.items() if value is not None}
    host = place.get("host", "localhost")
    if "," in host or host.startswith("/"):
        raise WrongConnectorFile(
            "DATABASE_URL names several hosts or a socket; Debezium takes one host and a port: name the "
            "primary in RAJADA_CONNECT_DATABASE_URL"
        )
    return {
        "POSTGRES_HOST": host,
        "POSTGRES_PORT": place.get("port", "5432"),
        "POSTGRES_USER": place.get("user", "postgres"),
        "POSTGRES_DB": place.get("dbname", place.get("user", "postgres")),
        "POSTGRES_SSLMODE": place.get("sslmode", "prefer"),
        "RAJADA_SLOT": settings.slot,
        "RAJADA_TOPIC_PREFIX": settings.topic_prefix,
        "RAJADA_HEARTBEAT_MS": str(round(settings.heartbeat_s * 1000)),
        "EXACTLY_ONCE_SUPPORT": "required" if settings.connect_exactly_once else "requested",
    }


def worker_environment(settings: Settings, bootstrap: str, database_url: str) -> dict[str, str]:
    """What the worker's file and the connectors read from the environment of Kafka Connect."""
    return {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "RAJADA_TOPIC_PREFIX": settings.topic_prefix,
        "CONNECT_EXACTLY_ONCE": "enabled" if settings.connect_exactly_once else "disabled",
        "POSTGRES_PASSWORD": str(conninfo_to_dict(_login(settings, database_url)).get("password") or ""),
    }


def _login(settings: Settings, database_url: str) -> str:
    own = settings.connect_database_url
    return own.get_secret_value() if own is not None else database_url


def filled(text: str, values: Mapping[str, str]) -> str:
    """A JSON text with each `${NAME}` replaced by its value, escaped as in a JSON string.

    Raises WrongConnectorFile for a name that there is no value for.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise WrongConnectorFile(
                f"the file names ${{{found[1]}}}, which there is no value for; there are "
                f"{', '.join(sorted(values))}"
            )
        return msgspec.json.encode(values[found[1]]).decode()[1:-1]

    return _VARIABLE.sub(value, text)


def connectors(settings: Settings, database_url: str, folder: Path | None = None) -> list[Connector]:
    """The connectors of an installation, filled.

    Raises:
        CannotRunHere: the files are not there.
        WrongConnectorFile: one of them can't be used, or the slot's name is too long for one.
    """
    values = variables(settings, database_url)
    made = []
    for file, event_type in FILES.items():
        try:
            draft = msgspec.json.decode(filled(shipped(file, folder), values), type=_Draft)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise WrongConnectorFile(f"{file} is no connector's file: {error}") from error
        if len(draft.name) > _LONGEST_NAME:
            raise WrongConnectorFile(
                f"{draft.name} is longer than the {_LONGEST_NAME} letters that Postgres takes for a slot: "
                "set a shorter RAJADA_SLOT"
            )
        if not draft.name == draft.config.get("slot.name") == draft.config.get("publication.name"):
            raise WrongConnectorFile(f"{file}: name, slot.name and publication.name must be the same")
        made.append(Connector(draft.name, event_type, draft.config))
    return made
