"""Group links in the demo: students enrol over the HTTP API, a stand-in WhatsApp takes the templates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID, uuid4

import msgspec

from db.queries import load
from db.tokens import new_token
from ops.clinic import Connection
from ops.demo.beside import Flow, asked
from ops.demo.happenings import Happening
from ops.whatsapp.scenario import Scenario

SCHOOL: Final = "Escola Aurora"
PATIENCE_S: Final = 30.0
"""How long the API may say that a server is away."""
AGAIN_S: Final = 0.5
_ROWS: Final = "SELECT phone, status FROM group_link_dispatch_queue WHERE organization_id = %s"
_FLAKY: Final = Scenario(mode="error", code=131000, status=500, times=1)
_NOT_THERE: Final = Scenario(mode="error", code=131026)


class Links(msgspec.Struct, frozen=True):
    """What became of the group links."""

    enrolled: int
    """Students, each asked for once or more."""
    again: int
    """Enrolments that were asked for once more, and answered with the job that there was."""
    sent: int
    failed: int
    taken: int
    """Messages that the provider says it took for them."""
    wrong: tuple[str, ...]
    """Enrolments without an end, or of which the provider took another number than their end says."""


class Enrolments(Flow):
    """Plays six enrolments; `web` and `whatsapp` are URLs."""

    def __init__(
        self, url: str, scale: float, tell: Callable[[Happening], None], *, web: str, whatsapp: str
    ) -> None:
        super().__init__(url, scale, tell)
        self._web = web
        self._whatsapp = whatsapp
        self._organization = uuid4()
        self._token = new_token()
        self._phones: dict[str, str] = {}
        """Enrolment → phone."""
        self._again = 0
        self._rows: dict[str, str] = {}
        self._taken: dict[str, int] = {}

    @property
    def organization_id(self) -> UUID:
        """The school's."""
        return self._organization

    def steps(self, connection: Connection) -> Iterator[tuple[float, Callable[[], None]]]:
        """Enrolments, and one reminder."""
        self._found(connection)
        yield 3.0, lambda: self._enrol("Ana", "personal")
        yield 4.0, lambda: self._enrol("Bento", "business", scenario=_FLAKY)
        yield 5.0, lambda: self._enrol("Carla", "personal", scenario=_NOT_THERE)
        yield 6.0, lambda: self._enrol("Davi", "business", delay_ms=round(12_000 * self._scale))
        yield 7.0, lambda: self._enrol("Elisa", "personal")
        yield 8.0, lambda: self._enrol("Elisa", "personal")
        yield 9.0, lambda: self._enrol("Fábio", "personal", delay_ms=600_000)
        yield 16.0, self._remind

    def look(self, connection: Connection) -> bool:
        """Whether each is sent or failed."""
        self._rows = {
            str(phone): str(status)
            for phone, status in connection.execute(_ROWS, [self._organization]).fetchall()
        }
        if {"pending", "processing"} & set(self._rows.values()):
            return False
        with asked("stand-in WhatsApp", self._whatsapp) as client:
            self._taken = msgspec.json.decode(client.get("/taken").content, type=dict[str, int])
        told = self.told()
        self.say(f"{SCHOOL}: {told.sent} group links sent, {told.failed} failed")
        return True

    def told(self) -> Links:
        """What became of them."""
        ends = {name: self._rows.get(phone, "") for name, phone in self._phones.items()}
        taken = {name: self._taken.get(phone, 0) for name, phone in self._phones.items()}
        return Links(
            enrolled=len(self._phones),
            again=self._again,
            sent=sum(end == "sent" for end in ends.values()),
            failed=sum(end == "failed" for end in ends.values()),
            taken=sum(taken.values()),
            wrong=tuple(
                name
                for name, end in ends.items()
                if end not in ("sent", "failed") or taken[name] != (1 if end == "sent" else 0)
            ),
        )

    def _found(self, connection: Connection) -> None:
        """The school, and its token."""
        connection.execute(
            "INSERT INTO organizations (id, name, status) VALUES (%s, %s, 'active')",
            [self._organization, SCHOOL],
        )
        values = {"id": self._token.id, "organization_id": self._organization, "name": "demo"}
        connection.execute(
            load("tokens_add"), {**values, "secret_sha256": self._token.digest, "made_by": "demo"}
        )

    def _enrol(self, student: str, flow: str, *, delay_ms: int = 0, scenario: Scenario | None = None) -> None:
        phone = self._phones.get(student) or f"+55119{uuid4().int % 10**8:08d}"
        if scenario is not None:
            with asked("stand-in WhatsApp", self._whatsapp) as client:
                client.put(f"/scenarios/{phone}", content=msgspec.json.encode(scenario)).raise_for_status()
        answer = self._post("/", {**self._message(student, phone, flow), "delayMs": delay_ms})
        self._again += student in self._phones
        self._phones[student] = phone
        later = ", in a while" if delay_ms else ""
        known = "" if answer["created"] else ": the same enrolment again, the same job"
        self.say(f"{student} enrols at {SCHOOL}: a group link is asked for{later}{known}")

    def _remind(self) -> None:
        """A person doesn't wait for a job that is due in ten minutes."""
        message = self._message("Fábio", self._phones["Fábio"], "personal")
        self._post("/sendreminder", {**message, "settleJob": True})
        self.say(f"{SCHOOL} sends Fábio's link now: his job counts as sent")

    def _message(self, student: str, phone: str, flow: str) -> dict[str, object]:
        return {
            "flow": flow,
            "organizationId": str(self._organization),
            "enrolmentId": f"enr-{student}",
            "studentName": student,
            "phone": phone,
            "groupLink": "https://chat.whatsapp.com/Kd8aQ1",
            "templateName": "welcome_group",
            "templateLanguage": "pt_BR",
        }

    def _post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {self._token.text}"}
        with asked("HTTP API", self._web, headers) as client:
            until = time.monotonic() + PATIENCE_S
            # 503: a server is away for the moment, and nothing was done (docs/group-links.md)
            while (answer := client.post(path, json=body)).status_code == 503 and time.monotonic() < until:
                time.sleep(AGAIN_S)
            answer.raise_for_status()
            return msgspec.json.decode(answer.content, type=dict[str, object])
