"""The books of a run, read from Postgres, the topics, and what the stand-ins remember."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import orjson
from confluent_kafka import Consumer, KafkaError, TopicPartition

from chaos.stack.books import Alert, Books, Call, EventRow, JobRow, Letter, Link, Put, Told
from chaos.stack.recorder import Asked
from ops.clinic import Connection
from ops.engine.journal import Asked as Request
from ops.whatsapp.serving import WhatsAppBeside
from schemas.topic_names import DEAD, SOURCE
from streams.letters import Letter as DeadLetter
from streams.letters import Place

READ_S: Final = 60.0


def records(bootstrap: str, topic: str) -> Iterator[Any]:
    """All committed records of a topic as it is now. Raises TimeoutError when it can't be read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": f"chaos-{uuid4()}", "enable.auto.commit": False,
            "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0,
        }
    )  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        ended: set[int | None] = set()  # an end is told again when more was written meanwhile
        deadline = time.monotonic() + READ_S
        while len(ended) < len(partitions):
            message = consumer.poll(1.0)
            if message is None:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic} could not be read to its end")
                continue
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()


@dataclass(slots=True)
class SourceLog:
    """Which event lies where on the source topic, over what retention has deleted meanwhile."""

    bootstrap: str
    topic: str
    found: dict[tuple[int, int], str] = field(default_factory=dict)
    """(partition, offset) → event id."""
    unread: set[tuple[int, int]] = field(default_factory=set)
    """Places that were deleted before anybody read them."""

    def read(self) -> None:
        """Take in what the topic holds now."""
        for message in records(self.bootstrap, self.topic):
            event_id = event_id_of(message)
            if event_id is not None:
                self.found[message.partition(), message.offset()] = event_id

    def places(self) -> dict[str, tuple[int, int]]:
        """Event → its first place that somebody could read."""
        first: dict[str, tuple[int, int]] = {}
        for place in sorted(self.found.keys() - self.unread):
            first.setdefault(self.found[place], place)
        return first


def event_id_of(message: Any) -> str | None:
    """The event of a source record, by its header or its row."""
    for name, value in message.headers() or ():
        if name == "event_id" and value:
            return str(value.decode())
    try:
        return str(orjson.loads(message.value())["id"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def read_rows(connection: Connection) -> tuple[dict[str, EventRow], dict[str, JobRow]]:
    """Events and jobs of the clinic as their rows say."""
    events = {
        str(id_): EventRow(str(status), outcome, str(job) if job else None)  # type: ignore[arg-type]
        for id_, status, outcome, job in connection.execute(
            "SELECT id, status, outcome, job_id FROM event_log WHERE event_type = %s", [SOURCE]
        ).fetchall()
    }
    jobs = {}
    for id_, status, organization, contact, names, attempts, error in connection.execute(
        "SELECT id, status, organization_id, contact_id, payload -> 'event_ids', attempts, last_error"
        " FROM job_queue WHERE kind = 'inbound_turn'"
    ).fetchall():
        found: Any = names or []
        jobs[str(id_)] = JobRow(
            str(status), str(organization), str(contact), tuple(found), int(attempts), error  # type: ignore
        )  # fmt: skip
    return events, jobs


def read_trace(connection: Connection) -> list[Told]:
    """What the trace tells of events and jobs, oldest first."""
    return [
        Told(str(event) if event else None, str(job) if job else None, stage, status, outcome, replay)  # type: ignore
        for event, job, stage, status, outcome, replay in connection.execute(
            "SELECT event_id, job_id, stage, status, outcome, replay FROM rajada.trace ORDER BY at, seq"
        ).fetchall()
    ]


def read_alerts(connection: Connection) -> list[Alert]:
    """Items of the inbox."""
    return [
        Alert(str(organization) if organization else None, kind, status, occurrences)  # type: ignore[arg-type]
        for organization, kind, status, occurrences in connection.execute(
            "SELECT organization_id, kind, status, occurrences FROM agent_inbox_items"
        ).fetchall()
    ]


def read_letters(bootstrap: str, prefix: str) -> list[Letter]:
    """Dead letters that lie in their topic."""
    found = []
    for message in records(bootstrap, f"{prefix}{DEAD}"):
        place = Place(DEAD, message.partition(), message.offset())
        letter = DeadLetter(
            place, message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ())
        )
        found.append(Letter(letter.event_id, letter.job_id, letter.reason, letter.replay))
    return found


def read_links(connection: Connection, asked: Iterable[Asked], whatsapp: WhatsAppBeside) -> list[Link]:
    """Group links, by their rows and by what came to the provider."""
    rows: Mapping[str, str] = {
        str(phone): str(status)
        for phone, status in connection.execute(
            "SELECT phone, CASE WHEN available_at = 'infinity' AND status = 'pending' THEN 'held'"
            " ELSE status END FROM group_link_dispatch_queue"
        ).fetchall()
    }
    taken = whatsapp.taken()
    return [
        Link(one.phone, rows.get(one.phone), taken.get(one.phone, 0), one.job_id is not None) for one in asked
    ]


def calls_of(requests: Iterable[Request]) -> list[Call]:
    """The engine's log."""
    return [
        Call(
            one.job_id, one.attempt, one.contact_id, one.conversation_id, tuple(one.event_ids), one.at_ms,
            one.ended_ms, one.status, one.mode, one.effect, one.replayed, one.sent_again,
        )
        for one in requests
    ]  # fmt: skip


def read_books(
    connection: Connection, bootstrap: str, prefix: str, put: list[Put], source: SourceLog
) -> Books:
    """All that servers tell; stand-ins' logs, links and what was done are for the caller to add."""
    source.read()
    events, jobs = read_rows(connection)
    return Books(
        put=put,
        events=events,
        jobs=jobs,
        trace=read_trace(connection),
        letters=read_letters(bootstrap, prefix),
        alerts=read_alerts(connection),
        places=source.places(),
    )
