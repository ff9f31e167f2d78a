"""What `rajada up` runs, in its order: servers, what prepares them, then the processes of the pipeline."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import status
from ops.cdc.connectors import register_in_place_of_relay
from ops.cdc.files import worker_environment
from ops.embedded.connect import EmbeddedConnect
from ops.embedded.folder import DataFolder
from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.ports import HOST, ports_for
from ops.embedded.postgres import EmbeddedPostgres
from ops.endpoints import STAND_IN, WEB, WHATSAPP, stand_in_whatsapp
from ops.errors import Unreachable
from ops.given import check_kafka, check_postgres, shown, whose_tables
from ops.sealed import seal_what_is_plain
from ops.supervision.units import Program, ServerUnit, Step, Unit
from settings import Settings
from telemetry.catalogue import PROCESSES

DATABASE = "rajada"
"""The database that is made in an embedded Postgres."""

CLAIM = "ports"
"""The step that claims what is told to others before it is there."""

NO_ENGINE = (
    "AGENT_ENGINE_URL is not set: turns are held, none is lost. Set it and start again, or see them answered "
    "by a stand-in with `rajada up --with-engine`."
)


class Stack:
    """The units of one installation, and where its servers listen."""

    def __init__(
        self,
        settings: Settings,
        folder: DataFolder,
        *,
        servers_only: bool = False,
        with_engine: bool = False,
        with_whatsapp: bool = False,
    ) -> None:
        """`with_engine`, `with_whatsapp`: run these stand-ins, too, and use them instead of what is set."""
        self._settings = settings
        self._folder = folder
        self._connect: EmbeddedConnect | None = None
        self._engine_url = ""
        self._whatsapp_url = ""
        self._kafka = (
            None
            if settings.kafka_bootstrap_servers
            else EmbeddedKafka(folder, java=settings.java, heap_mb=settings.kafka_heap_mb)
        )
        self._postgres = None if settings.database_url else EmbeddedPostgres(folder, choice=settings.postgres)
        self.units: list[Unit] = [
            self._kafka_unit(),
            self._postgres_unit(),
            Step("migrations", self._migrate, after=("postgres",)),
            Step("topics", self._topics, after=("kafka",)),
        ]
        if settings.schema_registry_url:
            self.units.append(Step("schemas", self._schemas))
        if with_engine:
            self.units.append(self._engine())
        if with_whatsapp:
            self.units.append(self._whatsapp())
        if not servers_only:
            processes = self._processes()
            if settings.publisher == "debezium":
                # in the relay's place
                processes = [*self._debezium(), *(one for one in processes if one.name != "relay")]
            self.units += processes
        if self._kafka is not None:
            self.units.append(self._training(self._kafka))
            self.units.insert(0, Step(CLAIM, self._claim(self._kafka)))

    @property
    def kafka(self) -> str:
        """Bootstrap servers; those of the embedded Kafka are known once its port is claimed."""
        return self._settings.kafka_bootstrap_servers or (self._kafka.bootstrap if self._kafka else "")

    @property
    def database_url(self) -> str:
        """URL of the database; that of the embedded Postgres is known once it is prepared."""
        return self._settings.database_url or (self._postgres.url_of(DATABASE) if self._postgres else "")

    @property
    def hint(self) -> str:
        """What somebody who starts it should know; empty when nothing."""
        runs_jobs = "worker" in (unit.name for unit in self.units) and self._settings.jobs_run_by == "lanes"
        return NO_ENGINE if runs_jobs and not (self._engine_url or self._settings.agent_engine_url) else ""

    # -- servers
    def _kafka_unit(self) -> Unit:
        if self._kafka is not None:
            unit = ServerUnit(self._kafka)
            unit.after = (CLAIM,)
            return unit
        return Step("kafka", lambda: check_kafka(self.kafka), listens=lambda: self.kafka)

    def _postgres_unit(self) -> Unit:
        if self._postgres is not None:
            return ServerUnit(self._postgres)
        url = self.database_url
        return Step("postgres", lambda: check_postgres(url), listens=lambda: shown(url))

    def _debezium(self) -> list[Unit]:
        """Kafka Connect on our Java, and its connectors; in place of the relay."""
        settings = self._settings
        connect = self._connect = EmbeddedConnect(
            self._folder,
            lambda: worker_environment(settings, self.kafka, self.database_url),
            java=settings.java,
            heap_mb=settings.connect_heap_mb,
        )
        unit = ServerUnit(connect)
        unit.after = ("kafka", "migrations", "topics")

        def register() -> str:
            return register_in_place_of_relay(settings, connect.url, self.kafka, self.database_url)

        return [unit, Step("connectors", register, after=(connect.name,))]

    def _training(self, kafka: EmbeddedKafka) -> Unit:
        """Once everything else is up: make Kafka's next start quicker."""
        settings = self._settings
        home, heaps = str(self._folder.root), [str(settings.kafka_heap_mb)]
        connect = self._connect
        if connect is not None:
            heaps.append(str(settings.connect_heap_mb))
        return Program(
            "training",
            [sys.executable, "-m", "ops.embedded.training", home, settings.java, *heaps],
            log=self._folder.logs / "training.log",
            status_folder=self._folder.status,
            environment=lambda: os.environ,
            after=tuple(unit.name for unit in self.units),
            once=True,
            needless=lambda: kafka.archive.exists() and (connect is None or connect.archive.exists()),
            nice=19,
        )

    # -- what prepares them
    def _claim(self, kafka: EmbeddedKafka) -> Callable[[], str]:
        """Kafka's port, long before Kafka: who starts without waiting for it must know where it will be."""

        def claim() -> str:
            kafka.claim()
            return f"kafka will be at {kafka.bootstrap}"

        return claim

    def _migrate(self) -> str:
        from db.migrate import migrate, pending

        if self._postgres is not None:
            self._postgres.ensure_database(DATABASE)
        crm = whose_tables(self.database_url)
        if crm == "existing" and (files := pending(self.database_url, crm=crm)):
            raise Unreachable(
                f"{shown(self.database_url)} is an existing CRM's database without {len(files)} of Rajada's "
                "migrations. `rajada migrate --dry-run` shows them, `rajada migrate` asks and applies them."
            )
        applied = migrate(self.database_url, crm=crm)
        seal_what_is_plain(self.database_url, self._settings)
        return f"{len(applied)} applied" if applied else "up to date"

    def _topics(self) -> str:
        from streams.topics import ensure_topics

        made = ensure_topics(self.kafka, self._settings)
        return f"{len(made)} made" if made else "all there"

    def _schemas(self) -> str:
        from ops.registered import register
        from schemas.registry import Incompatible, registry_of

        registry = registry_of(self._settings)
        assert registry is not None, "the step is there with a registry alone"
        try:
            standings = register(registry)
        finally:
            registry.close()
        for one in standings:
            if one.problem:
                raise Incompatible(f"{one.subject}, {one.record} {one.version}: {one.problem}")
        made = sum(one.made for one in standings)
        return f"{made} registered" if made else "all there"

    # -- the processes of the pipeline
    def _engine(self) -> Unit:
        """A stand-in for the agent engine, on a port that is kept between starts."""
        port = ports_for((STAND_IN,), self._folder.ports)[STAND_IN]
        self._engine_url = f"http://{HOST}:{port}/turns"
        return self._program(
            STAND_IN,
            [sys.executable, "-m", "ops.cli", "engine", "--port", str(port)],
            after=(),
            listens=self._engine_url,
        )

    def _whatsapp(self) -> Unit:
        """A stand-in for the WhatsApp Cloud API and for the provider of instances, on a port that is kept."""
        port = ports_for((WHATSAPP,), self._folder.ports)[WHATSAPP]
        self._whatsapp_url = f"http://{HOST}:{port}"
        return self._program(
            WHATSAPP,
            [sys.executable, "-m", "ops.cli", "whatsapp", "stand-in", "--port", str(port)],
            after=(),
            listens=self._whatsapp_url,
        )

    def _processes(self) -> list[Unit]:
        level = self._settings.log_level.lower()
        faust = [sys.executable, "-m", "faust", "-A", "streams", "worker", "--without-web", "-l", level]
        reconciler = ["streams.reconcile" if part == "streams" else part for part in faust]
        rajada = [sys.executable, "-m", "ops.cli"]
        ports = self._metrics_ports()
        return [
            self._program("relay", [*rajada, "relay"], metrics=ports["relay"]),
            self._program("worker", faust, metrics=ports["worker"]),
            self._program("delays", [*rajada, "delays"], metrics=ports["delays"]),
            self._program("sink", [*rajada, "sink"], metrics=ports["sink"]),
            self._program("reconciler", reconciler, metrics=ports["reconciler"]),
            self._web(ports["web"]),
        ]

    def _metrics_ports(self) -> dict[str, int]:
        """Where each serves metrics: from the port that is set on, else on free ones that are kept."""
        first = self._settings.metrics_port
        if first is not None:
            return {name: first and first + n for n, name in enumerate(PROCESSES)}
        kept = ports_for(tuple(f"metrics-{name}" for name in PROCESSES), self._folder.ports)
        return {name: kept[f"metrics-{name}"] for name in PROCESSES}

    def _web(self, metrics: int) -> Unit:
        """The HTTP API, on the port that is set, or on one that is kept between starts."""
        port = self._settings.web_port
        if port is None:
            port = ports_for((WEB,), self._folder.ports)[WEB]
        return self._program(
            WEB,
            [sys.executable, "-m", "ops.cli", "web", "--port", str(port)],
            after=("postgres", "migrations", *((CLAIM,) if self._kafka else ())),
            listens=f"http://{self._settings.web_host}:{port}",
            metrics=metrics,
        )

    def _program(
        self,
        name: str,
        command: list[str],
        *,
        after: tuple[str, ...] | None = None,
        listens: str = "",
        metrics: int = 0,
    ) -> Program:
        """A process of ours; `metrics` is the port on which it serves them, 0 = on none."""
        return Program(
            name,
            command,
            log=self._folder.logs / f"{name}.log",
            status_folder=self._folder.status,
            environment=lambda: self._environment() | {"RAJADA_METRICS_PORT": str(metrics)},
            after=self._prepared if after is None else after,
            listens=listens,
            metrics=f"http://{self._settings.metrics_host}:{metrics}/metrics" if metrics else "",
        )

    @property
    def _prepared(self) -> tuple[str, ...]:
        """What most processes begin after."""
        schemas = ("schemas",) if self._settings.schema_registry_url else ()
        return ("kafka", "postgres", "migrations", "topics", *schemas)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka,
            **(
                {"KAFKA_SECURITY_PROTOCOL": "PLAINTEXT"} if self._kafka else {}
            ),  # the embedded one asks for none
            "DATABASE_URL": self.database_url,
            "RAJADA_HOME": str(self._folder.root),
            "PYTHONUNBUFFERED": "1",
            status.STATUS_DIR: str(self._folder.status),
            **({"AGENT_ENGINE_URL": self._engine_url} if self._engine_url else {}),
            **(stand_in_whatsapp(self._whatsapp_url) if self._whatsapp_url else {}),
        }
