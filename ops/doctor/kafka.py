"""Whether Kafka can carry it: brokers, version, topics as they must be, replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from db.graves import Grave, graves, overfull
from kafka_access import kafka_client
from ops.doctor.failover import failover
from ops.doctor.findings import Check, Verdict, fail, ok, warn
from ops.doctor.kafka_version import kafka_version
from ops.doctor.shadow import shadow, topic_of
from ops.numbers import several
from settings import RajadaError, Settings
from streams import topics
from streams.topics import Drift, check_topics

ANSWER_S: Final = 5.0
ENSURE: Final = "`rajada topics ensure` makes them (so does the worker's start)"
GRAVE: Final = frozenset({"partitions", "cleanup.policy"})
"""Differences that break the order per contact or lose state; others shorten or lengthen what is kept."""


class KafkaAway(RajadaError):
    """Kafka does not answer."""


def connect(bootstrap: str) -> ClusterMetadata:
    """What the cluster says of itself; raises KafkaAway."""
    client = AdminClient({**kafka_client(bootstrap), "log_level": 0, "socket.timeout.ms": 5000})
    try:
        return client.list_topics(timeout=ANSWER_S)
    except KafkaException as error:
        raise KafkaAway(f"{bootstrap} does not answer: {error.args[0].str()}") from error


def kafka_checks(cluster: ClusterMetadata, bootstrap: str, settings: Settings) -> dict[str, Check]:
    """The checks, by name."""
    ours = [settings.topic(topic.name) for topic in topics.TOPICS]
    checks: dict[str, Check] = {
        "brokers": lambda: brokers(cluster, bootstrap, settings),
        "topics": lambda: drifts(check_topics(bootstrap, settings), len(ours)),
        "partitions": lambda: partitions(cluster, settings),
        "replicas": lambda: replicas(cluster, ours),
        "dead letters": lambda: dead_letters(graves(bootstrap, settings), settings),
        "failover": lambda: failover(cluster, bootstrap, settings.session_timeout_s),
    }
    if topic_of(settings) in cluster.topics:
        checks["shadow"] = lambda: shadow(bootstrap, settings)
    return checks


def brokers(cluster: ClusterMetadata, bootstrap: str, settings: Settings) -> Verdict:
    """How many there are, and of which release."""
    count = len(cluster.brokers)
    first = next(iter(cluster.brokers.values()))
    release = kafka_version(first.host or "", first.port) or "unknown version"
    found = f"Kafka {release} at {bootstrap}, {count} broker{'s' * (count != 1)}"
    if count < settings.replication_factor:
        return fail(
            f"{found}, but RAJADA_REPLICATION_FACTOR is {settings.replication_factor}",
            "topics can't be made: add brokers or lower the factor",
        )
    return ok(found)


def drifts(found: Sequence[Drift], count: int) -> list[Verdict]:
    """Where the topics differ from what they must be; `count` = how many there must be."""
    missing = [drift.topic for drift in found if drift.what == "topic"]
    verdicts = []
    if len(missing) == count:
        verdicts.append(warn("none of them is there yet", ENSURE))
    elif missing:
        verdicts.append(fail(f"missing: {', '.join(missing)}", ENSURE))
    alike: dict[tuple[str, str, str], list[str]] = {}
    for drift in found:
        if drift.what != "topic":
            alike.setdefault((drift.what, drift.wanted, drift.found), []).append(drift.topic)
    verdicts += [_drift(names, what, wanted, is_now) for (what, wanted, is_now), names in alike.items()]
    return verdicts or [ok(f"all {count} as they must be")]


def _drift(names: Sequence[str], what: str, wanted: str, found: str) -> Verdict:
    """One difference, and the topics that have it."""
    told, topic = (
        f"{_some(names)}: {what} is {found}, wanted {wanted}",
        names[0] if len(names) == 1 else "EACH",
    )
    if what in GRAVE:
        return fail(told, f"make {topic} anew as it must be, when it is empty (docs/topics.md)")
    if what == "replicas":
        return warn(
            told,
            "set RAJADA_REPLICATION_FACTOR to what there is, or give the topics as many "
            "(kafka-reassign-partitions.sh)",
        )
    return warn(told, f"kafka-configs.sh --alter --topic {topic} --add-config {what}={wanted}")


def dead_letters(found: Mapping[str, Grave], settings: Settings) -> list[Verdict]:
    """Whether there are so many dead letters, or such large ones, that somebody should look."""
    verdicts = [
        warn(
            f"{settings.topic(topic)} holds {_held(grave)}, alarm above {settings.dead_alarm_records:,} or "
            f"{settings.dead_alarm_mb:,} MiB",
            "`rajada dlq ls` shows the open ones by reason; kafka-delete-records.sh removes those that are "
            "settled; RAJADA_DEAD_ALARM_RECORDS and RAJADA_DEAD_ALARM_MB set the limits",
        )
        for topic, grave in overfull(found, settings).items()
    ]
    counts = ", ".join(f"{_held(grave)} in {settings.topic(topic)}" for topic, grave in found.items())
    return verdicts or [ok(counts or "none: the topics are not made yet")]


def _held(grave: Grave) -> str:
    size = f" (about {grave.bytes / 2**20:,.0f} MiB)" if grave.bytes >= 2**20 else ""
    return f"{several(grave.letters, 'letter')}{size}"


def partitions(cluster: ClusterMetadata, settings: Settings) -> Verdict:
    """Whether the setting tells the truth: it counts only when the topics are made."""
    source = cluster.topics.get(settings.topic(topics.SOURCE))
    if source is None:
        return ok(f"{settings.partitions}, when the topics are made")
    found = len(source.partitions)
    if found != settings.partitions:
        return warn(
            f"the topics have {found}, RAJADA_PARTITIONS says {settings.partitions}",
            f"the topics' number counts; set RAJADA_PARTITIONS={found} so that nobody is misled",
        )
    return ok(str(found))


def replicas(cluster: ClusterMetadata, ours: Sequence[str]) -> list[Verdict]:
    """Whether every partition of ours has a leader and all its replicas."""
    found = [
        (name, partition)
        for name in ours
        if name in cluster.topics
        for partition in cluster.topics[name].partitions.values()
    ]
    leaderless = [f"{name}[{one.id}]" for name, one in found if one.leader < 0]
    behind = [f"{name}[{one.id}]" for name, one in found if len(one.isrs) < len(one.replicas)]
    lone = sorted({name for name, one in found if len(one.replicas) == 1})
    verdicts = []
    if leaderless:
        verdicts.append(
            fail(f"no leader: {_some(leaderless)}", "a broker is down: nothing of these partitions moves")
        )
    if behind:
        verdicts.append(warn(f"replicas are behind: {_some(behind)}", "is a broker down or slow?"))
    if lone and len(cluster.brokers) > 1:
        verdicts.append(
            warn(
                f"a single replica on {len(cluster.brokers)} brokers: {_some(lone)}",
                "one lost disk loses them: raise the topics' replication (kafka-reassign-partitions.sh) and "
                "RAJADA_REPLICATION_FACTOR",
            )
        )
    return verdicts or [ok("every partition has its leader and its replicas" if found else "no topics yet")]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
