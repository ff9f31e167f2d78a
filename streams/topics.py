"""Every topic of Rajada in one table, created and checked at start (design: Names).

Topics are made before anybody subscribes: a missing source topic leaves a Faust agent idle for ever.
Partition counts are fixed at creation; nothing here ever changes a topic that exists.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType, TopicMetadata

from kafka_access import kafka_client
from schemas.topic_names import APP_ID as APP_ID
from schemas.topic_names import CLOCK as CLOCK
from schemas.topic_names import CONTACTS_CHANGELOG as CONTACTS_CHANGELOG
from schemas.topic_names import CONTACTS_TABLE as CONTACTS_TABLE
from schemas.topic_names import CONTROL as CONTROL
from schemas.topic_names import DEAD as DEAD
from schemas.topic_names import DELAY as DELAY
from schemas.topic_names import GROUP_LINKS as GROUP_LINKS
from schemas.topic_names import JOBS as JOBS
from schemas.topic_names import JOBS_CHANGELOG as JOBS_CHANGELOG
from schemas.topic_names import JOBS_TABLE as JOBS_TABLE
from schemas.topic_names import OUTCOMES as OUTCOMES
from schemas.topic_names import PARKING as PARKING
from schemas.topic_names import RECONCILIATION as RECONCILIATION
from schemas.topic_names import SOURCE as SOURCE
from settings import RajadaError, Settings
from streams.due import DELAY_TOPICS

log = structlog.get_logger(__name__)

DAY_MS = 24 * 3600 * 1000
SOURCE_MAX_BYTES = 4 * 1024 * 1024
DEAD_MAX_BYTES = SOURCE_MAX_BYTES + 256 * 1024
"""A dead letter carries the original and our headers, so its limit lies above the source's."""


class TopicsUnusable(RajadaError):
    """Topics exist with another shape than Rajada needs, or can't be made; the message tells which."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as it must be: name without prefix, clean-up, retention (ms; -1 = no limit), record limit."""

    name: str
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int = 7 * DAY_MS
    max_bytes: int = SOURCE_MAX_BYTES
    extra: tuple[tuple[str, str], ...] = ()
    partitions: int | None = None
    """A number of its own; None = that of all topics which carry contacts."""

    def config(self, settings: Settings) -> dict[str, str]:
        """The topic's configuration in Kafka's names."""
        config = {
            "cleanup.policy": self.cleanup,
            "max.message.bytes": str(self.max_bytes),
            "min.insync.replicas": str(settings.least_in_sync),
            **dict(self.extra),
        }
        if self.cleanup == "delete":
            config["retention.ms"] = str(self.retention_ms)
        return config


TOPICS = (
    Topic(SOURCE),
    Topic(GROUP_LINKS),
    Topic(JOBS),
    Topic(CONTROL),
    Topic(OUTCOMES, retention_ms=14 * DAY_MS),
    Topic(DEAD, retention_ms=-1, max_bytes=DEAD_MAX_BYTES),
    Topic(PARKING, retention_ms=-1, max_bytes=DEAD_MAX_BYTES),
    *(
        Topic(
            name,
            retention_ms=2 * wait_ms + 7 * DAY_MS,
            # a record leaves a tier after the tier's time since its append, whatever clock wrote it
            extra=(("message.timestamp.type", "LogAppendTime"),),
        )
        for name, wait_ms in DELAY_TOPICS.items()
    ),
    Topic(
        CLOCK,
        retention_ms=DAY_MS // 24,
        partitions=1,
        # its time stamps are what it is for (streams/delays/probe.py); its records tell nothing
        extra=(("message.timestamp.type", "LogAppendTime"), ("segment.ms", str(3600 * 1000))),
    ),
    Topic(RECONCILIATION, retention_ms=DAY_MS, partitions=1),
    *(
        Topic(
            changelog,
            cleanup="compact",
            max_bytes=16 * 1024 * 1024,
            # twice the idle time of a contact, so that a record and its tombstone outlive every owner of it
            extra=(("min.compaction.lag.ms", str(30 * 60 * 1000)), ("segment.ms", str(3600 * 1000))),
        )
        for changelog in (CONTACTS_CHANGELOG, JOBS_CHANGELOG)
    ),
)
"""Those that carry contacts have one number of partitions: a key hashes to the same one everywhere."""

SHADOW_TOPICS = tuple(
    topic if topic.cleanup == "compact" else replace(topic, retention_ms=7 * DAY_MS)
    for topic in TOPICS
    if topic.name in (JOBS, OUTCOMES, DEAD, PARKING, CONTACTS_CHANGELOG)
)
"""What a shadow writes (docs/shadow.md). Its dead letters are nobody's to deal with, so they go by time."""


def source_topic(settings: Settings) -> str:
    """The full name of the topic that a worker takes its events from: a shadow has none of its own."""
    return f"{settings.topic_prefix}{SOURCE}"


def _table(settings: Settings) -> tuple[Topic, ...]:
    """The topics that a process makes sure of."""
    return SHADOW_TOPICS if settings.shadow else TOPICS


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between a topic as it is and as it must be."""

    topic: str
    what: str
    wanted: str
    found: str

    def __str__(self) -> str:
        """The difference in one line."""
        return f"{self.topic}: {self.what} is {self.found}, wanted {self.wanted}"


def _client(bootstrap: str) -> AdminClient:
    # What it can't do is raised; the client's own lines would only repeat it.
    return AdminClient({**kafka_client(bootstrap), "socket.timeout.ms": 10_000, "log_level": 2})


def ensure_topics(bootstrap: str, settings: Settings, timeout_s: float = 30.0) -> list[str]:
    """Create what is missing and wait until every topic can be seen; returns the full names that were made.

    Raises TopicsUnusable when Kafka is away, refuses, or a topic has another number of partitions than its
    siblings (a contact's records would then not meet in one worker).
    """
    admin = _client(bootstrap)
    existing = _existing(admin, bootstrap)
    missing = [topic for topic in _table(settings) if settings.topic(topic.name) not in existing]
    if settings.shadow and source_topic(settings) not in existing:
        raise TopicsUnusable(
            f"There is no topic {source_topic(settings)} whose events a shadow could read: `rajada topics "
            "ensure` makes it, and `rajada relay` or Debezium writes it (docs/shadow.md)."
        )
    partitions = _partitions(existing, settings)
    made = []
    if missing:
        wanted = [
            NewTopic(
                settings.topic(topic.name),
                num_partitions=topic.partitions or partitions,
                replication_factor=settings.replication_factor,
                config=topic.config(settings),
            )
            for topic in missing
        ]
        for name, future in admin.create_topics(wanted, operation_timeout=timeout_s).items():
            try:
                future.result(timeout_s)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise TopicsUnusable(
                        f"Kafka refuses to create the topic {name}: {error.args[0].str()}"
                    ) from error
            else:
                made.append(name)
        every = {settings.topic(topic.name) for topic in _table(settings)}
        _partitions(_until_visible(admin, every, bootstrap, timeout_s), settings)
    if made:
        log.info("topics_created", topics=made, partitions=partitions)
    return made


def partition_count(bootstrap: str, settings: Settings) -> int:
    """How many partitions the topics of this installation have; they were ensured before."""
    return _existing(_client(bootstrap), bootstrap)[source_topic(settings)]


def _existing(admin: AdminClient, bootstrap: str) -> dict[str, int]:
    """Topic name → number of partitions."""
    return {name: len(topic.partitions) for name, topic in _described(admin, bootstrap).items()}


def _described(admin: AdminClient, bootstrap: str) -> dict[str, TopicMetadata]:
    """Topic name → its partitions and their replicas."""
    try:
        metadata = admin.list_topics(timeout=10)
    except KafkaException as error:
        raise TopicsUnusable(
            f"Kafka does not answer at {bootstrap}: {error.args[0].str()}. Is it running, and is "
            "KAFKA_BOOTSTRAP_SERVERS right?"
        ) from error
    return dict(metadata.topics)


def _partitions(existing: dict[str, int], settings: Settings) -> int:
    """The number all topics share: that of those which exist, else the setting's."""
    shared = [settings.topic(topic.name) for topic in _table(settings) if topic.partitions is None]
    if settings.shadow:
        shared.append(source_topic(settings))  # a contact's windows are where its events are
    counts = {name: existing[name] for name in shared if name in existing}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in sorted(counts.items()))
        raise TopicsUnusable(
            f"All topics must have the same number of partitions, but {told}. Re-create the odd one with "
            "the number of the others (docs/topics.md tells how to repartition without loss)."
        )
    return next(iter(counts.values()), settings.partitions)


def _until_visible(admin: AdminClient, names: set[str], bootstrap: str, timeout_s: float) -> dict[str, int]:
    deadline = time.monotonic() + timeout_s
    while names - (existing := _existing(admin, bootstrap)).keys():
        if time.monotonic() > deadline:
            raise TopicsUnusable(
                f"Kafka at {bootstrap} created topics but does not show them after {timeout_s:.0f} s."
            )
        time.sleep(0.05)
    return existing


def check_topics(bootstrap: str, settings: Settings) -> list[Drift]:
    """Where the topics that exist differ from the table; missing ones are told too. Nothing is changed."""
    admin = _client(bootstrap)
    existing = _described(admin, bootstrap)
    drifts = []
    present = []
    source = existing.get(settings.topic(SOURCE))
    partitions = len(source.partitions) if source is not None else settings.partitions
    for topic in TOPICS:
        name = settings.topic(topic.name)
        if name not in existing:
            drifts.append(Drift(name, "topic", "present", "missing"))
            continue
        present.append(topic)
        drifts += shape_drifts(name, existing[name], topic.partitions or partitions, settings)
    resources = [ConfigResource(ResourceType.TOPIC, settings.topic(topic.name)) for topic in present]
    if not resources:
        return drifts
    answers = {resource.name: future for resource, future in admin.describe_configs(resources).items()}
    for topic in present:
        name = settings.topic(topic.name)
        config = answers[name].result(10)
        for key, wanted in topic.config(settings).items():
            found = config[key].value if key in config else None
            if found != wanted:
                drifts.append(Drift(name, key, wanted, str(found)))
    return drifts


def shape_drifts(name: str, found: TopicMetadata, partitions: int, settings: Settings) -> list[Drift]:
    """Where a topic's partitions and replicas differ: what an `alter` of its configuration can't change."""
    drifts = []
    if len(found.partitions) != partitions:
        drifts.append(Drift(name, "partitions", str(partitions), str(len(found.partitions))))
    replicas = sorted({len(one.replicas) for one in found.partitions.values()})
    if replicas != [settings.replication_factor]:
        told = (
            " to ".join(str(count) for count in {replicas[0]: None, replicas[-1]: None}) if replicas else "0"
        )
        drifts.append(Drift(name, "replicas", str(settings.replication_factor), told))
    return drifts
