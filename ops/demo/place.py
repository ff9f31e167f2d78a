"""Where the demo runs: a data folder of its own, and on given servers a database and topic prefix of its own.

So it never touches what a `rajada up` beside it does. The place is remembered in its folder: a stack that was
kept is used again, and what a killed demo left behind is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

import msgspec
import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from psycopg import sql

from db.urls import url_of
from kafka_access import kafka_client
from ops.embedded.folder import DataFolder, read_json, write_json
from ops.errors import OpsError, Unreachable
from settings import Settings

FOLDER: Final = "demo"
_FILE: Final = "demo.json"
_PRIVATE: Final = 0o600
_RECHECK_MS: Final = 4_000
_RETRY_MS: Final = 1_500
_SLOT_S: Final = 10
_NOT_OURS: Final = frozenset({"EVENT_MAX_AGE", "RAJADA_WEB_PORT"})
"""What the shell has set for an installation beside which the demo runs."""
_STOP_GRACE_S: Final = 2
"""Whoever stops the demo doesn't wait for a long turn: it is handed back."""


class NotCleaned(OpsError):
    """What the demo made on given servers is still there."""


class Place(msgspec.Struct, frozen=True):
    """What the demo's processes are told of where they are; a given server's password may be in it."""

    home: str
    kafka: str = ""
    """Bootstrap servers if given, else empty."""
    admin_url: str = ""
    """URL of the given Postgres, else empty."""
    prefix: str = ""
    name: str = "rajada"
    """Of slot and publication, and on a given Postgres of the database."""
    kept: bool = False

    @classmethod
    def new(cls, settings: Settings, home: Path, *, kept: bool) -> Self:
        """A place that nothing else uses."""
        mark = uuid4().hex[:8]
        given = bool(settings.kafka_bootstrap_servers or settings.database_url)
        return cls(
            home=str(home),
            kafka=settings.kafka_bootstrap_servers or "",
            admin_url=settings.database_url or "",
            prefix=f"{settings.topic_prefix}demo-{mark}." if given else "",
            name=f"rajada_demo_{mark}" if given else "rajada",
            kept=kept,
        )

    @classmethod
    def last(cls, folder: DataFolder) -> Self | None:
        """The place of the run before, if it was not cleaned up."""
        saved = read_json(folder.root / _FILE)
        try:
            return msgspec.convert(saved, cls) if saved else None
        except msgspec.ValidationError:
            return None

    @property
    def database_url(self) -> str:
        """URL of the own database on a given Postgres; empty on the embedded one."""
        return url_of(self.admin_url, self.name) if self.admin_url else ""

    def settings(self, settings: Settings, kafka: str, database_url: str) -> Settings:
        """Settings for whoever works here, the servers being known now."""
        return settings.model_copy(
            update={
                "kafka_bootstrap_servers": kafka,
                "database_url": database_url,
                "topic_prefix": self.prefix,
                "home": Path(self.home),
            }
        )

    def environment(self, scale: float, default_window_ms: int, spacing_ms: int) -> Mapping[str, str]:
        """The environment of the stack; what it waits for is scaled as the scenario is.

        `default_window_ms` is the window of numbers whose agent is paused, `spacing_ms` the least time
        between two turns of one person. The stack has an engine of its own: a real one is never asked.
        """
        ours = {
            "RAJADA_HOME": self.home,
            "RAJADA_TOPIC_PREFIX": self.prefix,
            "RAJADA_SLOT": self.name,
            "RAJADA_PUBLICATION": self.name,
            "RAJADA_WINDOW_MODE": "fixed",
            "INBOUND_DEBOUNCE_MS": str(default_window_ms),
            "RAJADA_RETRY_DELAY_MS": str(max(200, int(_RETRY_MS * scale))),
            "MEDIA_RECHECK_MS": str(max(200, int(_RECHECK_MS * scale))),
            "RAJADA_JOBS_RUN_BY": "lanes",
            "RAJADA_PERSON_SPACING_MS": str(spacing_ms),
            "RAJADA_STOP_GRACE_S": str(_STOP_GRACE_S),
            "AGENT_ENGINE_URL": "",
            "AGENT_ENGINE_TOKEN": "",
            "GROUP_LINK_RETRY_DELAY_MS": str(max(200, int(_RETRY_MS * scale))),
            "GROUP_LINK_ON_UNKNOWN": "hold",
            "WHATSAPP_PROBE_TOKEN": "",
            "RAJADA_WEB_HOST": "127.0.0.1",
            **({"KAFKA_BOOTSTRAP_SERVERS": self.kafka} if self.kafka else {}),
            **({"DATABASE_URL": self.database_url} if self.admin_url else {}),
        }
        kept = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        return {**kept, **ours}

    def prepare(self, folder: DataFolder) -> None:
        """Remember the place, then make its database on a given Postgres. Raises Unreachable."""
        write_json(folder.root / _FILE, msgspec.to_builtins(self), mode=_PRIVATE)
        if not self.admin_url:
            return
        try:
            with psycopg.connect(self.admin_url, autocommit=True, connect_timeout=_SLOT_S) as admin:
                admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.name)))
        except psycopg.Error as error:
            raise Unreachable(
                f"The demo can't make its own database on the given Postgres ({str(error).strip()}). Give it "
                "a DATABASE_URL whose user may, or unset it to use the embedded Postgres."
            ) from error

    def keep(self, folder: DataFolder) -> Self:
        """The same place, to be kept from now on."""
        kept = msgspec.structs.replace(self, kept=True)
        write_json(folder.root / _FILE, msgspec.to_builtins(kept), mode=_PRIVATE)
        return kept

    def is_of(self, settings: Settings) -> bool:
        """Whether it is on the servers that the settings name (or on embedded ones as they want)."""
        named = settings.kafka_bootstrap_servers or "", settings.database_url or ""
        return (self.kafka, self.admin_url) == named

    def clean(self, folder: DataFolder) -> None:
        """Forget the place, and remove database, slot and topics from given servers. Raises NotCleaned."""
        (folder.root / _FILE).unlink(missing_ok=True)
        try:
            self._remove()
        except (psycopg.Error, KafkaException) as error:
            raise NotCleaned(
                f"The demo could not remove its database {self.name} and its topics {self.prefix}… from the "
                f"given servers ({str(error).strip()}). Drop them by hand."
            ) from error

    def _remove(self) -> None:
        if self.admin_url:
            with psycopg.connect(self.admin_url, autocommit=True, connect_timeout=_SLOT_S) as admin:
                with contextlib.suppress(psycopg.errors.UndefinedObject):
                    admin.execute("SELECT pg_drop_replication_slot(%s)", [self.name])
                admin.execute(
                    sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self.name))
                )
        if self.kafka and self.prefix:
            _delete_topics(self.kafka, self.prefix)


def _delete_topics(bootstrap: str, prefix: str) -> None:
    admin = AdminClient({**kafka_client(bootstrap), "log_level": 2})
    topics = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
    for future in admin.delete_topics(topics).values() if topics else ():
        future.result(30)
    groups = admin.list_consumer_groups(request_timeout=10).result(15).valid
    ours = [group.group_id for group in groups if group.group_id.startswith(prefix)]
    for future in admin.delete_consumer_groups(ours).values() if ours else ():
        with contextlib.suppress(KafkaException):  # a member that was killed is still in it
            future.result(15)
