"""The report over a real topic and real tables: what is read, what is left out, whose it is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ops.clinic import Clinic, Connection, Message, Patient
from ops.errors import NotFound
from ops.pages.desk import PageDesk
from ops.shadow.ours import outcomes_of, shadow_of
from ops.shadow.report import OPEN_MS, Report, report
from schemas.codec import encode_outcome
from schemas.records import EventOutcome, Outcome
from settings import Settings
from streams.shadow import begin_at_the_end
from streams.topics import ensure_topics, source_topic
from web.pages.desk import Missing

AGO_MS = OPEN_MS + 600_000
"""When all of it happened: long enough ago that no window is open any more."""


@dataclass
class Stage:
    """A CRM whose drain has done its work, and the topic of a shadow."""

    url: str
    kafka: str
    settings: Settings
    connection: Connection
    at_ms: int = field(default_factory=lambda: int(time.time() * 1000) - AGO_MS)

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.kafka})

    def event(self, clinic: Clinic, patient: Patient, *, job: bool, why: str | None = None) -> str:
        """An event that the drain is done with."""
        (written,) = clinic.write(self.connection, [Message(patient)])
        self.connection.execute(
            "UPDATE event_log SET status = 'done', created_at = to_timestamp(%(at)s),"
            " updated_at = to_timestamp(%(at)s + 1),"
            " metadata = jsonb_strip_nulls(jsonb_build_object('why', %(why)s::text))"
            " WHERE id = %(id)s",
            {"at": self.at_ms / 1000, "id": written.event_id, "why": why},
        )
        if job:
            self.connection.execute(
                "INSERT INTO job_queue"
                " (organization_id, contact_id, kind, source_event_id, payload, created_at)"
                " VALUES (%s, %s, 'inbound_turn', %s, %s, to_timestamp(%s))",
                [
                    clinic.organization_id,
                    patient.contact_id,
                    written.event_id,
                    json.dumps({"conversation_id": patient.conversation_id}),
                    self.at_ms / 1000 + 1,
                ],
            )
        return written.event_id

    def decided(self, clinic: Clinic, patient: Patient, outcome: str, *events: str) -> None:
        """The shadow's decision on a window."""
        told = Outcome(
            organization_id=clinic.organization_id,
            contact_id=patient.contact_id,
            at_ms=self.at_ms + 2_000,
            stage="decide",
            events=tuple(EventOutcome(event_id=one, seq=1) for one in events),
            status="done",
            outcome=outcome,
            job_id=str(uuid4()) if outcome == "job" else None,
            facts=json.dumps(
                {
                    "conversation_id": patient.conversation_id,
                    "opened_ms": self.at_ms,
                    "deadline_ms": self.at_ms + 2_000,
                    "warnings": [f"first_look:{outcome}"],
                }
            ),
        )
        topic = outcomes_of(self.settings)
        self.producer.produce(topic, encode_outcome(told), b"k", timestamp=told.at_ms)
        assert self.producer.flush(30) == 0

    def report(self, since_ms: int | None = None, **given: object) -> Report:
        since_ms = self.at_ms - 1_000 if since_ms is None else since_ms
        return report(self.url, self.kafka, self.settings, since_ms, **given)  # type: ignore[arg-type]


@pytest.fixture
def stage(database: str, kafka: str, prefix: str) -> Iterator[Stage]:
    settings = Settings(  # type: ignore[call-arg]
        _env_file=None, topic_prefix=prefix, shadow_reason="why", kafka_bootstrap_servers=kafka
    )
    with psycopg.connect(database, autocommit=True) as connection:
        yield Stage(database, kafka, settings, connection)


def begin(stage: Stage) -> None:
    """A shadow has been here."""
    admin = AdminClient({"bootstrap.servers": stage.kafka})
    name = source_topic(stage.settings)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    ensure_topics(stage.kafka, shadow_of(stage.settings))
    begin_at_the_end(stage.kafka, shadow_of(stage.settings))


def test_where_no_shadow_has_been_there_is_nothing_to_report(stage: Stage) -> None:
    with pytest.raises(NotFound, match="rajada shadow run"):
        stage.report()
    desk = PageDesk(stage.url, stage.settings)
    with pytest.raises(Missing):
        desk.shadow(None, 1)


def test_it_compares_reads_reasons_and_finds_what_the_shadow_never_saw(stage: Stage) -> None:
    begin(stage)
    assert stage.report().windows == 0
    clinic = Clinic.found(stage.connection)
    other = Clinic.found(stage.connection)
    ana, bia, caio, dora = clinic.register(stage.connection, ["Ana", "Bia", "Caio", "Dora"])
    (eva,) = other.register(stage.connection, ["Eva"])
    one, two = (stage.event(clinic, ana, job=job) for job in (True, False))
    stage.decided(clinic, ana, "job", one, two)
    stage.decided(clinic, ana, "job", one, two)  # a crash sends a window twice
    stage.decided(clinic, bia, "no_published_agent", stage.event(clinic, bia, job=False, why="paused"))
    stage.decided(clinic, caio, "org_not_operating", stage.event(clinic, caio, job=True))
    stage.decided(other, eva, "job", stage.event(other, eva, job=False))
    stage.at_ms += 3_000  # after the first decision: of events before it nobody knows
    unseen = stage.event(clinic, dora, job=True)
    stage.at_ms -= 3_000

    found = stage.report()
    assert found.same == {"same_job": 1} and not found.not_comparable
    assert found.differences == {"only_theirs": 1, "only_ours": 1, "other_stop": 1, "unseen": 1}
    assert (found.windows, found.behind, found.notes) == (4, 0, [])
    assert found.examples["other_stop"][0].theirs == "paused"
    assert found.examples["unseen"][0].events == [unseen]

    of_other = stage.report(organization=other.organization_id)
    assert (of_other.windows, of_other.differences) == (1, {"only_ours": 1})
    few = stage.report(most=1)
    assert few.windows <= 2 and "newest" in few.notes[0], "of each partition one record at most"
    assert "unseen" not in few.differences, "who has not read all knows of nothing that is missing"
    assert stage.report(since_ms=stage.at_ms + 60_000).windows == 0

    desk = PageDesk(stage.url, stage.settings)
    everything, own = desk.shadow(None, 1), desk.shadow(other.organization_id, 1)
    assert (everything.windows, own.windows, own.behind) == (4, 1, None)
    assert clinic.organization_id not in repr(own) and ana.contact_id not in repr(own)
