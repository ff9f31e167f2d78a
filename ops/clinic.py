"""A made-up clinic on WhatsApp: the people and messages of the demo, the benchmarks and the tests.

It writes what a CRM writes: agents, contacts and conversations, and for each customer message a row in
`messages` and an event in `event_log`, in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

import psycopg

from db.queries import load

Connection = psycopg.Connection[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Patient:
    """A contact and its conversation with the clinic."""

    name: str
    contact_id: str
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Written:
    """A message that was written, and its event."""

    event_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message to write: `kind` as WhatsApp's (text, image, audio, …), `media_url` for files."""

    patient: Patient
    kind: str = "text"
    media_url: str | None = None


@dataclass(frozen=True, slots=True)
class Clinic:
    """One organization with one WhatsApp number and, usually, one published agent."""

    organization_id: str
    session_id: str
    agent_id: str

    @classmethod
    def found(
        cls,
        connection: Connection,
        *,
        name: str = "",
        status: str = "active",
        debounce_ms: int | None = None,
        published: bool = True,
    ) -> Clinic:
        """Make a clinic; `debounce_ms` is its agent's window (None: the installation's)."""
        organization_id = str(uuid4())
        with connection.transaction():
            connection.execute(
                "INSERT INTO organizations (id, name, status) VALUES (%s, %s, %s)",
                [organization_id, name, status],
            )
            return cls._with_number(connection, organization_id, debounce_ms=debounce_ms, published=published)

    def another_number(
        self, connection: Connection, *, debounce_ms: int | None = None, published: bool = True
    ) -> Clinic:
        """Add a WhatsApp number with an agent of its own to the organization."""
        return self._with_number(
            connection, self.organization_id, debounce_ms=debounce_ms, published=published
        )

    @classmethod
    def _with_number(
        cls, connection: Connection, organization_id: str, *, debounce_ms: int | None, published: bool
    ) -> Clinic:
        """Make a number and its agent; one that isn't published is paused: no pointer, version superseded."""
        clinic = cls(organization_id, str(uuid4()), str(uuid4()))
        version_id = str(uuid4())
        with connection.transaction():
            connection.execute(
                "INSERT INTO channel_sessions (id, organization_id, status) VALUES (%s, %s, 'WORKING')",
                [clinic.session_id, clinic.organization_id],
            )
            connection.execute(
                "INSERT INTO ai_agents (id, organization_id, name) VALUES (%s, %s, 'Recepção')",
                [clinic.agent_id, clinic.organization_id],
            )
            connection.execute(
                "INSERT INTO ai_agent_versions"
                " (id, organization_id, agent_id, channel_session_id, status, inbound_debounce_ms)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                [
                    version_id,
                    clinic.organization_id,
                    clinic.agent_id,
                    clinic.session_id,
                    "published" if published else "superseded",
                    debounce_ms,
                ],
            )
            if published:
                connection.execute(
                    "UPDATE ai_agents SET published_version_id = %s WHERE id = %s",
                    [version_id, clinic.agent_id],
                )
        return clinic

    def register(self, connection: Connection, names: Sequence[str], *, group: bool = False) -> list[Patient]:
        """Add contacts, each with a conversation (a group's, if so)."""
        patients = [Patient(name, str(uuid4()), str(uuid4())) for name in names]
        connection.execute(
            load("clinic_contacts"),
            {
                "organization": self.organization_id,
                "session": self.session_id,
                "contacts": [one.contact_id for one in patients],
                "conversations": [one.conversation_id for one in patients],
                "names": [one.name for one in patients],
                "phones": [f"55119{int(one.contact_id[:8], 16) % 10**8:08d}" for one in patients],
                "is_group": [group] * len(patients),
            },
        )
        return patients

    def another_conversation(self, connection: Connection, patient: Patient) -> Patient:
        """Open a conversation on this number with a contact who has one elsewhere."""
        other = Patient(patient.name, patient.contact_id, str(uuid4()))
        connection.execute(
            "INSERT INTO conversations (id, organization_id, contact_id, channel_session_id)"
            " VALUES (%s, %s, %s, %s)",
            [other.conversation_id, self.organization_id, other.contact_id, self.session_id],
        )
        return other

    def write(self, connection: Connection, messages: Sequence[Message]) -> list[Written]:
        """Write messages with their events, in this order, in one statement."""
        written = [Written(str(uuid4()), str(uuid4())) for _ in messages]
        connection.execute(
            load("clinic_messages"),
            {
                "organization": self.organization_id,
                "session": self.session_id,
                "events": [one.event_id for one in written],
                "messages": [one.message_id for one in written],
                "contacts": [one.patient.contact_id for one in messages],
                "conversations": [one.patient.conversation_id for one in messages],
                "kinds": [one.kind for one in messages],
                "media": [one.media_url for one in messages],
            },
        )
        return written
