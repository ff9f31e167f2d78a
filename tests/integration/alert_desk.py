"""A database with an organization, outcomes that the real writer writes, and rounds of the alert pass."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from db.migrate import migrate
from schemas import alert_texts
from schemas.records import Alert, EventOutcome, EventRef, Job, Outcome
from sinks.batch import Taken, batch_of
from sinks.passes import Round
from sinks.watches import Watch
from sinks.writer import Writer
from tests.databases import fresh_database

TOPIC_ID = "desk"
_CLEAR = (
    "TRUNCATE organizations, event_log, rajada.troubles, rajada.dropped, rajada.trace, rajada.relay,"
    " rajada.closed_letters, rajada.leases, rajada.sink_offsets CASCADE"
)
AI = "ai_agent.dispatch_requested"


@contextmanager
def desk_database(postgres: str) -> Iterator[str]:
    """URL of a database with all tables, for a module."""
    with fresh_database(postgres) as url:
        migrate(url, crm="ours")
        yield url


class Desk:
    """What a test says happens, in words; `inbox` is what a person sees."""

    def __init__(self, url: str, *, clear: bool = True) -> None:
        self.rows = psycopg.connect(url, autocommit=True)
        self.writer = Writer(url)
        self.organization = str(uuid.uuid4())
        self.contact = str(uuid.uuid4())
        self.now_ms = time.time_ns() // 1_000_000
        self._seq = itertools.count(10)
        self._offset = itertools.count(1)
        if clear:
            self.run(_CLEAR)
        self.run("INSERT INTO organizations (id) VALUES (%s)", self.organization)
        self.run(
            "INSERT INTO contacts (id, organization_id) VALUES (%s, %s)", self.contact, self.organization
        )

    def close(self) -> None:
        self.rows.close()
        self.writer.__exit__(None, None, None)

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = self.rows.execute(statement, values)  # type: ignore[arg-type]  # plain text is fine here
        return cursor.fetchall() if cursor.description else []

    # -- what happens

    def tell(self, *outcomes: Outcome) -> None:
        """The sink writes them, in one transaction."""
        taken = [Taken(0, next(self._offset), outcome) for outcome in outcomes]
        positions = self.writer.positions(TOPIC_ID, "t", [0])
        self.writer.write(TOPIC_ID, batch_of(taken), positions)

    def event(self, event_type: str = AI) -> str:
        name = str(uuid.uuid4())
        self.run(
            "INSERT INTO event_log (id, organization_id, event_type) VALUES (%s, %s, %s)",
            name, self.organization, event_type,
        )  # fmt: skip
        return name

    def outcome(self, *events: str, replay: int = 0, status: str = "done", **changed: Any) -> Outcome:
        self.now_ms += 1
        values: dict[str, Any] = {
            "organization_id": self.organization,
            "contact_id": self.contact,
            "at_ms": self.now_ms,
            "stage": "decide",
            "status": status,
            "events": tuple(
                EventOutcome(event_id=one, replay=replay, seq=next(self._seq), attempts=5) for one in events
            ),
        }
        return Outcome(**(values | changed))

    def death(self, event: str, replay: int = 0, event_type: str = AI, **changed: Any) -> Outcome:
        alert = alert_texts.event_dead(event_type, "contact_missing", 5, event, "gone")
        return self.outcome(
            event, replay=replay, status="dead", outcome="contact_missing", alert=alert, **changed
        )

    def job(self, kind: str = "inbound_turn", **changed: Any) -> Job:
        event = str(uuid.uuid4())
        values: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "organization_id": self.organization,
            "contact_id": self.contact if kind == "inbound_turn" else None,
            "kind": kind,
            "source_event_id": event,
            "seq": 2,
            "created_at_ms": self.now_ms,
            "run_after_ms": self.now_ms,
            "payload": "{}",
            "events": (EventRef(event),),
        }
        return Job(**(values | changed))

    def step(
        self, job: Job, status: str, outcome: str | None = None, alert: Alert | None = None, **moved: Any
    ) -> Outcome:
        """The next transition of a job, as the executor tells it."""
        job = msgspec.structs.replace(job, **{"seq": next(self._seq), **moved})
        return self.outcome(
            stage="execute", outcome=outcome, job=job, job_id=job.id, job_status=status, alert=alert
        )

    def job_death(self, job: Job, **moved: Any) -> Outcome:
        return self.step(job, "dead", "dead:http_500", alert_texts.job_dead(job, "HTTP 500"), **moved)

    def drop(self, kind: str, name: str, replay: int = 0) -> None:
        """What `rajada dlq drop` writes."""
        self.run(
            "INSERT INTO rajada.dropped (kind, id, replay, reason, topic, partition, \"offset\")"
            " VALUES (%s, %s, %s, 'r', 't', 0, 0)",
            kind, name, replay,
        )  # fmt: skip

    def make_round(self, *watches: Watch) -> None:
        """One round of the pass."""
        Round("pt-BR", list(watches)).make(self.rows)

    # -- what a person sees

    def inbox(self) -> list[tuple[str, str, int]]:
        """Title, status and count of all items, oldest first."""
        return self.run("SELECT title, status, occurrences FROM agent_inbox_items ORDER BY created_at, title")

    def statuses(self) -> list[str]:
        return [status for _, status, _ in self.inbox()]

    def troubles(self) -> Sequence[tuple[Any, ...]]:
        return self.run("SELECT about, id, kind FROM rajada.troubles ORDER BY at, id")

    def resolve(self, status: str = "resolved") -> None:
        """A person deals with all open items."""
        self.run("UPDATE agent_inbox_items SET status = %s WHERE status = 'open'", status)
