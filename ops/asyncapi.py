"""docs/asyncapi.yaml: every topic with its records, in AsyncAPI 3, from the code that makes and reads them.

What a topic is like comes from `streams.topics`, its records' schemas from `schemas/*.avsc`, who writes and
reads it from the access lists (`ops.kafka_roles`), keys and headers from `ops.topic_records`.
`rajada topics describe --asyncapi` prints it for an installation; `python -m ops.asyncapi` prints the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, TypeAlias

from ops.kafka_roles import RIGHTS
from ops.topic_records import RECORDS, Records, lies_in
from schemas.history import current_text
from schemas.topic_names import APP_ID, DELAYS_GROUP, RECONCILER_ID, SINK_GROUP
from settings import Settings
from streams.topics import TOPICS, Topic

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"

_BINDING: Final = "0.5.0"
"""Version of AsyncAPI's Kafka bindings."""
_GROUPS: Final[Mapping[str, str]] = {
    "worker": APP_ID,
    "delays": DELAYS_GROUP,
    "sink": SINK_GROUP,
    "reconciler": RECONCILER_ID,
}
"""Role → the group that it reads in; `web` only looks."""
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORDS: Final = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""What YAML reads as something else than text, in any version of it."""
_AVRO: Final = "application/vnd.apache.avro+json;version=1.9.0"
_TITLES: Final[Mapping[str, str]] = {
    "relay": "publishes what was written to event_log",
    "worker": "collects, decides, runs jobs",
    "delays": "brings back what waits",
    "sink": "writes outcomes to Postgres",
    "web": "shows what lies there, and gives orders",
    "reconciler": "moves stuck instances on",
}


def document(settings: Settings) -> dict[str, Json]:
    """The AsyncAPI document of an installation: its prefix, partitions and replicas."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Rajada",
            "version": version("rajada"),
            "description": "Every topic. Avro values are single objects (C3 01, fingerprint, body), "
            "or Confluent's wire format where a schema registry is set; the first bytes tell which.",
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic, settings) for topic in TOPICS},
        "operations": dict(_operations(settings)),
        "components": {"messages": {name: _message(name, records) for name, records in RECORDS.items()}},
    }


def _channel(topic: Topic, settings: Settings) -> dict[str, Json]:
    lies = lies_in(topic.name)
    return {
        "address": settings.topic(topic.name),
        "description": f"{lies.about} Key: {lies.key}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in lies.records},
        "bindings": {
            "kafka": {
                "partitions": topic.partitions or settings.partitions,
                "replicas": settings.replication_factor,
                "topicConfiguration": _configuration(topic, settings),
                "bindingVersion": _BINDING,
            }
        },
    }


def _configuration(topic: Topic, settings: Settings) -> dict[str, Json]:
    config: dict[str, Json] = {
        name: int(value) if value.lstrip("-").isdigit() else value
        for name, value in topic.config(settings).items()
    }
    return {**config, "cleanup.policy": [topic.cleanup]}


def _operations(settings: Settings) -> Iterator[tuple[str, Json]]:
    """Who writes and reads: each process with each topic; what a person does with `rajada` is left out."""
    for role, told in _TITLES.items():
        for action, right in (("receive", "Read"), ("send", "Write")):
            for topic in (topic for topic in TOPICS if _may(role, right, topic.name)):
                lies = lies_in(topic.name)
                operation: dict[str, Json] = {
                    "action": action,
                    "channel": {"$ref": f"#/channels/{topic.name}"},
                    "summary": f"{role}: {told}",
                    "messages": [
                        {"$ref": f"#/channels/{topic.name}/messages/{name}"} for name in lies.records
                    ],
                }
                if action == "receive" and role in _GROUPS:
                    group: Json = {"type": "string", "enum": [settings.topic(_GROUPS[role])]}
                    operation["bindings"] = {"kafka": {"groupId": group, "bindingVersion": _BINDING}}
                yield f"{role}.{action}.{topic.name}", operation


def _may(role: str, operation: str, topic: str) -> bool:
    return any(
        one.kind == "topic"
        and operation in one.operations
        and (topic.startswith(one.name) if one.start else topic == one.name)
        for one in RIGHTS[role]
    )


@dataclass(frozen=True, slots=True)
class Described:
    """One topic in words, with its full name."""

    name: str
    about: str
    key: str
    kept: str
    partitions: int
    writers: tuple[str, ...]
    """Roles; what a person does with `rajada` is left out."""
    readers: tuple[str, ...]


def described(settings: Settings) -> list[Described]:
    """Every topic of an installation."""
    return [
        Described(
            name=settings.topic(topic.name),
            about=lies_in(topic.name).about,
            key=lies_in(topic.name).key,
            kept=_kept(topic),
            partitions=topic.partitions or settings.partitions,
            writers=tuple(role for role in _TITLES if _may(role, "Write", topic.name)),
            readers=tuple(role for role in _TITLES if _may(role, "Read", topic.name)),
        )
        for topic in TOPICS
    ]


def _kept(topic: Topic) -> str:
    if topic.cleanup == "compact":
        return "the last record of each key"
    if topic.retention_ms < 0:
        return "without limit"
    hours = topic.retention_ms / 3_600_000
    return f"{hours / 24:.3g} days" if hours >= 24 else f"{hours:.3g} hours"


def _message(name: str, records: Records) -> dict[str, Json]:
    message: dict[str, Json] = {"name": name, "title": records.title, "summary": records.summary}
    if records.headers:
        message["headers"] = {
            "type": "object",
            "properties": {
                header: {"type": "string", "description": told} for header, told in records.headers.items()
            },
        }
    if records.avro is not None:
        message["contentType"] = "avro/binary"
        message["payload"] = {"schemaFormat": _AVRO, "schema": json.loads(current_text(records.avro))}
    elif records.json is not None:
        message["contentType"] = "application/json"
        message["payload"] = json.loads(json.dumps(records.json))
    else:
        message["contentType"] = "application/octet-stream"
    return message


def as_yaml(value: Json) -> str:
    """YAML of plain data: blocks, every text in quotes; needs no library."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Json, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(f"{indent}{_key(key)}:", inner, indent)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for inner in value:
            yield from _entry(f"{indent}-", inner, indent)
    else:
        yield f"{indent}{json.dumps(value, ensure_ascii=False)}"


def _entry(start: str, inner: Json, indent: str) -> Iterator[str]:
    if isinstance(inner, (Mapping, Sequence)) and not isinstance(inner, str) and inner:
        yield start
        yield from _lines(inner, f"{indent}  ")
    else:
        yield f"{start} {json.dumps(inner, ensure_ascii=False)}"


def _key(key: str) -> str:
    return key if _PLAIN.fullmatch(key) and key.lower() not in _WORDS else json.dumps(key)


def page() -> str:
    """docs/asyncapi.yaml: of an installation without any setting."""
    head = "# From the code; `python -m ops.asyncapi > docs/asyncapi.yaml`. A test holds it.\n"
    return head + as_yaml(document(Settings.model_construct()))


if __name__ == "__main__":
    print(page(), end="")
