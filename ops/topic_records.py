"""What lies in each topic: its key, its records and their headers, in words for docs/asyncapi.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from schemas.delayed import DUE_AT, FORWARD_TO, ORIGINAL_TIMESTAMP, UNKNOWN_SINCE
from schemas.topic_names import (
    CLOCK,
    CONTACTS_CHANGELOG,
    CONTROL,
    DEAD,
    DELAY,
    GROUP_LINKS,
    JOBS,
    JOBS_CHANGELOG,
    OUTCOMES,
    PARKING,
    RECONCILIATION,
    SOURCE,
)

Headers = Mapping[str, str]
"""Name → meaning."""

_EVENT: Final[Headers] = {
    "cdc_op": "c: from the log of changes; r: read from the table",
    "cdc_source_lsn": "position in Postgres' WAL",
    "cdc_source_ts_ms": "commit time of the row, Unix ms; without it the record's timestamp counts",
    "event_id": "as in the row",
    "event_type": "as in the row",
    "rekeyed": "1: it had come under a wrong key or in a wrong partition, and was put right once",
}
_TRACE: Final[Headers] = {
    "traceparent": "W3C Trace Context: the trace of the message and its jobs",
    "tracestate": "W3C Trace Context",
}
_AGAIN: Final[Headers] = {
    "replay": "number of the run that sent it again; absent: it is the original",
    "again": "1: a new job is wanted even of what was answered",
    "replays": "how often it was requeued",
    "copied-from": "topic/partition/offset of what it is a copy of",
}
_UNKNOWN: Final[Headers] = {
    UNKNOWN_SINCE: "Unix ms since when nobody knew its schema; after an hour it is a dead letter"
}
_WAITS: Final[Headers] = {
    DUE_AT: "Unix ms before which it does not reach where it goes",
    ORIGINAL_TIMESTAMP: "Unix ms, the timestamp of the record that was delayed first",
    FORWARD_TO: "the topic that it goes to, without prefix; absent: dispatch.jobs",
}
_DIED: Final[Headers] = {
    "stage": "where it died",
    "reason": "why, by name (docs/reasons.md)",
    "event-id": "of the event that it is about",
    "job-id": "of the job that it is about",
    "attempt": "how many attempts it had",
    "first-failed-at": "Unix ms; written once",
    "kafka_dlt-original-topic": "where it was when it died first; written once",
    "kafka_dlt-original-partition": "the same",
    "kafka_dlt-original-offset": "the same",
    "kafka_dlt-original-timestamp": "the same, Unix ms",
    "kafka_dlt-exception-fqcn": "rajada. and the reason",
    "kafka_dlt-exception-message": "the error, without personal data",
}


@dataclass(frozen=True, slots=True)
class Records:
    """One kind of record: `avro` names its schema, else `json` is one, else its value is any bytes."""

    title: str
    summary: str
    headers: Headers
    avro: str | None = None
    json: Mapping[str, object] | None = None


RECORDS: Final[Mapping[str, Records]] = {
    "EventRow": Records(
        "A row of event_log as JSON",
        "What change data capture publishes of each pending row; more columns may be there.",
        {**_EVENT, **_TRACE, **_AGAIN, **_UNKNOWN},
        json={
            "type": "object",
            "required": ["id", "organization_id", "event_type", "payload"],
            "properties": {
                "id": {"type": "string", "format": "uuid"},
                "organization_id": {"type": "string", "format": "uuid"},
                "event_type": {"type": "string"},
                "payload": {"type": ["string", "object"], "description": "JSON, as text or as it is"},
                "attempts": {"type": "integer"},
                "created_at": {"type": ["string", "null"], "description": "ISO 8601"},
                "partition_key": {"type": ["string", "null"]},
            },
            "additionalProperties": True,
        },
    ),
    "DispatchRequested": Records(
        "A row of event_log as Avro",
        "The same from producers that send Avro.",
        {**_EVENT, **_TRACE, **_AGAIN, **_UNKNOWN},
        avro="DispatchRequested",
    ),
    "Job": Records(
        "One attempt of a job",
        "Made by a closed window or a group link; again for each further attempt.",
        {"cdc_source_ts_ms": "commit time of the job's first event, Unix ms", **_TRACE, **_WAITS, **_UNKNOWN},
        avro="Job",
    ),
    "Command": Records(
        "An order to jobs",
        "By a person (rajada jobs, pause, resume, forget, dlq requeue) or by a process of Rajada.",
        {**_TRACE, **_UNKNOWN},
        avro="Command",
    ),
    "Outcome": Records(
        "What became of an event or a job",
        "The sink writes it to Postgres if its (replay, seq) is above the row's.",
        {**_TRACE, **_UNKNOWN},
        avro="Outcome",
    ),
    "Delayed": Records(
        "A record that waits", "The bytes of the record as they are.", {**_WAITS, **_UNKNOWN, **_TRACE}
    ),
    "DeadLetter": Records(
        "A dead letter",
        "The record as it came, key, value and headers, and why it died.",
        {
            **_DIED,
            "replay": "number of the run that sent it last",
            "replays": _AGAIN["replays"],
            "copied-from": _AGAIN["copied-from"],
            "truncated": "it was too large to be kept whole",
            "value-left-out": "bytes of the value, which no topic would take",
            "reconstructed": "retention had taken the original; rebuilt from the window",
            "erased": "its contact was forgotten",
        },
    ),
    "Trigger": Records(
        "A request for a run of the reconciler",
        "Two with the same request are one.",
        {},
        json={"type": "object", "properties": {"request": {"type": "string", "format": "uuid"}}},
    ),
    "Tick": Records("A look at the clock", "Empty; its timestamp is Kafka's own time.", {}),
    "State": Records(
        "The state of a key",
        "For Rajada alone. JSON; null: the key is idle.",
        {"token": "who wrote it: epoch and generation, two unsigned 32-bit numbers, big-endian"},
    ),
}
"""Name of the kind → what it is."""


@dataclass(frozen=True, slots=True)
class Lies:
    """What lies in a topic: `key` in words, and the names of its kinds of records."""

    about: str
    key: str
    records: tuple[str, ...]


_CONTACT: Final = "organization_id:contact_id, lower case; the partition is murmur2 of it"
_PHONE: Final = "organization_id:phone (E.164); the partition is murmur2 of it"
_AS_JOB: Final = "organization_id:contact_id, or :phone of a group link"
_AS_IT_WAS: Final = "as the original's"

LIES: Final[Mapping[str, Lies]] = {
    SOURCE: Lies("Inbound messages that ask for an answer.", _CONTACT, ("EventRow", "DispatchRequested")),
    GROUP_LINKS: Lies(
        "Enrolments that ask for the link of a group.", _PHONE, ("EventRow", "DispatchRequested")
    ),
    JOBS: Lies("Jobs that are to be run, an attempt each.", _AS_JOB, ("Job",)),
    CONTROL: Lies("Orders to jobs.", _AS_JOB, ("Command",)),
    OUTCOMES: Lies("What became of events and jobs, for Postgres.", _AS_JOB, ("Outcome",)),
    DEAD: Lies("What could not be finished; nothing is deleted by time.", _AS_IT_WAS, ("DeadLetter",)),
    PARKING: Lies("What died after three replays; nothing is deleted by time.", _AS_IT_WAS, ("DeadLetter",)),
    CLOCK: Lies("Written to in order to read Kafka's clock; nobody reads it.", "none", ("Tick",)),
    RECONCILIATION: Lies(
        "Requests for a run of the reconciler, by `rajada reconcile` or by others.", "schedule", ("Trigger",)
    ),
    CONTACTS_CHANGELOG: Lies("Windows, for the worker's recovery.", _CONTACT, ("State",)),
    JOBS_CHANGELOG: Lies("Jobs that are not finished, for the worker's recovery.", _AS_JOB, ("State",)),
    DELAY: Lies("Records that wait.", _AS_JOB, ("Delayed",)),
}
"""Topic → what lies in it; all delay topics under their common beginning."""


def lies_in(topic: str) -> Lies:
    """What lies in a topic, by its name without prefix; KeyError for a topic that nobody told of."""
    return LIES[DELAY if topic.startswith(f"{DELAY}.") else topic]
