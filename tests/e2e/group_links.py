"""Group links over all processes, with a stand-in WhatsApp: what tests ask for and look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import httpx

from db.queries import load
from db.tokens import new_token
from ops.clinic import Connection
from ops.whatsapp.serving import WhatsAppBeside
from tests.e2e.processes import Processes
from tests.e2e.waiting import until

PROCESSES = ("relay", "worker", "sink", "delays", "web")


def settings(whatsapp: WhatsAppBeside, **more: str) -> dict[str, str]:
    """What the processes are told."""
    return {
        "WHATSAPP_API_URL": whatsapp.url,
        "WHATSAPP_PHONE_NUMBER_ID": "1055",
        "WHATSAPP_ACCESS_TOKEN": "stand-in-token",
        "RAJADA_WHATSAPP_RATE_PER_S": "100000",
        "RAJADA_PERSON_SPACING_MS": "0",
        "RAJADA_STOP_GRACE_S": "1",
        "RAJADA_WEB_PORT": "0",
        "RAJADA_WEB_RATE_PER_S": "0",
        **more,
    }


@dataclass
class School:
    """An organization that enrols students."""

    connection: Connection
    processes: Processes
    organization_id: UUID
    client: httpx.Client
    jobs: dict[str, str] = field(default_factory=dict)
    """Phone → job."""

    @classmethod
    def found(cls, connection: Connection, processes: Processes) -> School:
        """One with a token, once the web process is ready."""
        organization_id, token = uuid4(), new_token()
        connection.execute(
            "INSERT INTO organizations (id, name, status) VALUES (%s, 'school', 'active')", [organization_id]
        )
        values = {"id": token.id, "organization_id": organization_id, "name": "", "made_by": None}
        connection.execute(load("tokens_add"), {**values, "secret_sha256": token.digest})
        client = httpx.Client(
            base_url=processes.told("web"),
            headers={"Authorization": f"Bearer {token.text}"},
            trust_env=False,
            timeout=30,
        )
        return cls(connection, processes, organization_id, client)

    def enrol(self, number: int, **fields: object) -> str:
        """Enrol a student; returns the phone."""
        phone = f"+55119{number:08d}"
        answer = self.client.post("/", json=self.body(number, phone, fields))
        assert answer.status_code == 202, answer.text
        self.jobs[phone] = answer.json()["jobId"]
        return phone

    def body(self, number: int, phone: str, fields: Mapping[str, object]) -> dict[str, object]:
        """Of a request."""
        return {
            "flow": "business" if number % 2 else "personal",
            "organizationId": str(self.organization_id),
            "enrolmentId": f"enr-{number}",
            "studentName": f"Student {number}",
            "phone": phone,
            "groupLink": "https://chat.whatsapp.com/Kd8aQ1",
            "templateName": "welcome_group",
            "templateLanguage": "pt_BR",
            **fields,
        }

    def row(self, phone: str) -> tuple[str, int, str | None, str | None]:
        """Status (`held` too), attempts, message id, error."""
        row = self.connection.execute(
            "SELECT CASE WHEN available_at = 'infinity' AND status = 'pending' THEN 'held' ELSE status END,"
            " attempts, provider_message_id, last_error FROM group_link_dispatch_queue WHERE id = %s",
            [self.jobs[phone]],
        ).fetchone()
        assert row is not None
        return row  # type: ignore[return-value]

    def becomes(self, phone: str, status: str, seconds: float = 60.0) -> None:
        """Wait until a student's row says so."""
        until(lambda: self.row(phone)[0] == status, seconds)

    def alerts(self, kind: str) -> list[tuple[int, str]]:
        """Occurrences and status of the alerts of a kind."""
        return self.connection.execute(
            "SELECT occurrences, status FROM agent_inbox_items WHERE kind = %s", [kind]
        ).fetchall()  # type: ignore[return-value]
