"""The clinics and people of a scenario, as rows in Postgres.

They are made anew each time, so that the same minute can be played again at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ops.clinic import Clinic, Connection, Patient
from ops.demo.scenario import Scenario
from ops.demo.steps import Chat


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the scenario's numbers and chats are in the database."""

    numbers: dict[str, Clinic]
    people: dict[str, Patient]

    @property
    def organization_ids(self) -> list[str]:
        """The organizations of this run."""
        return sorted({number.organization_id for number in self.numbers.values()})

    def number_of(self, chat: Chat) -> Clinic:
        """The number that a chat goes to."""
        return self.numbers[chat.line]


def set_stage(connection: Connection, scenario: Scenario) -> Stage:
    """Write the organizations, numbers, agents, contacts and conversations of a scenario."""
    organizations: dict[str, Clinic] = {}
    numbers: dict[str, Clinic] = {}
    for line in scenario.lines:
        published = line.agent == "published"
        known = organizations.get(line.organization_name)
        if known is None:
            number = Clinic.found(
                connection,
                name=line.organization_name,
                status=line.organization,
                debounce_ms=line.window_ms,
                published=published,
            )
            organizations[line.organization_name] = number
        else:
            number = known.another_number(connection, debounce_ms=line.window_ms, published=published)
        numbers[line.key] = number
    people: dict[str, Patient] = {}
    for chat in scenario.chats:
        number = numbers[chat.line]
        if chat.same_contact_as is not None:
            people[chat.key] = number.another_conversation(connection, people[chat.same_contact_as])
        else:
            (people[chat.key],) = number.register(connection, [chat.name], group=chat.group)
        if chat.owner is not None:
            assign(connection, people[chat.key], chat.owner)
    return Stage(numbers, people)


def assign(connection: Connection, person: Patient, owner: str) -> None:
    """Give a conversation an owner, as when somebody of the clinic takes it over (`user`)."""
    connection.execute(
        "UPDATE conversations SET assignee_kind = %s WHERE id = %s", [owner, person.conversation_id]
    )


def connect(connection: Connection, number: Clinic, *, works: bool) -> None:
    """Take a number's connection to WhatsApp away, or give it back."""
    status = "WORKING" if works else "FAILED"
    connection.execute("UPDATE channel_sessions SET status = %s WHERE id = %s", [status, number.session_id])


def merge(connection: Connection, gone: Patient, kept: Patient) -> None:
    """Merge a contact into another one: its conversation moves, the contact is deleted."""
    with connection.transaction():
        connection.execute(
            "UPDATE conversations SET contact_id = %s WHERE id = %s", [kept.contact_id, gone.conversation_id]
        )
        connection.execute("DELETE FROM contacts WHERE id = %s", [gone.contact_id])


def media_was_read(connection: Connection, message_id: str) -> None:
    """What the CRM does when a photo is described or an audio transcribed."""
    connection.execute("UPDATE messages SET media_derived_status = 'ready' WHERE id = %s", [message_id])
