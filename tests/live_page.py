"""The live page served as `rajada web` serves it, on real servers, with something of every kind on it."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import httpx
import psycopg
import uvicorn
from confluent_kafka import Producer

from ops.clinic import Clinic, Connection, Message, Patient
from ops.pages import tokens
from ops.pages.desk import PageDesk
from ops.shadow.ours import shadow_of
from schemas.alert_catalogue import FAMILIES
from schemas.codec import encode_job, encode_outcome
from schemas.dead import Cause, dead_headers
from schemas.records import EventOutcome, EventRef, Job, Outcome
from schemas.topic_names import CONTACTS_CHANGELOG, DEAD, JOBS_CHANGELOG, OUTCOMES, SOURCE
from settings import Settings
from streams.contact import Contact, Window, WindowEvent, encode_contact
from streams.contact_jobs import ContactJobs, encode_jobs
from streams.heads import Head, Origin, State
from streams.topics import ensure_topics
from streams.transport.token import HEADER, Token
from web.app import build

READY_S = 20.0
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


@dataclass
class Tenant:
    """An organization with one of everything; each id is told by nobody else."""

    clinic: Clinic
    patient: Patient
    phone: str
    event_id: str
    message_id: str
    pending: str
    held: str
    alert: str
    instance: str
    died: str
    """The event of its dead letter."""
    place: str = ""

    @property
    def secrets(self) -> list[str]:
        """What nobody else may see."""
        ids = [
            self.clinic.organization_id,
            self.patient.contact_id,
            self.patient.conversation_id,
            self.event_id,
        ]
        ids += [self.message_id, self.pending, self.held, self.alert, self.instance, self.died]
        return [*ids, *(one[:8] for one in ids), self.phone]


@dataclass
class Stage:
    """Servers, and who writes to them as the processes do."""

    url: str
    settings: Settings
    connection: Connection
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        bootstrap = self.settings.bootstrap()
        self.producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})

    def tenant(self, *, name: str = "Ana", text: str = "Something is wrong") -> Tenant:
        """One more organization, with an event, jobs, a window, an alert, an instance and a dead letter."""
        clinic = Clinic.found(self.connection)
        (patient,) = clinic.register(self.connection, [name])
        (written,) = clinic.write(self.connection, [Message(patient)])
        row = self.connection.execute(
            "SELECT phone_number FROM contacts WHERE id = %s", [patient.contact_id]
        ).fetchone()
        pending, held, alert, instance = (str(uuid4()) for _ in range(4))
        self._jobs(clinic, patient, {pending: "now() + interval '90 seconds'", held: "'infinity'"}, text)
        kind = sorted(family.kind for family in FAMILIES.values())[0]
        self.connection.execute(
            "INSERT INTO agent_inbox_items (id, organization_id, kind, title, body, status, ref_kind, ref_id)"
            " VALUES (%s, %s, %s, %s, %s, 'open', 'job', %s)",
            [alert, clinic.organization_id, kind, text, text, pending],
        )
        self.connection.execute(
            "INSERT INTO connect.whatsapp_instances (id, organization_id, state, state_since)"
            " VALUES (%s, %s, 'provisioning', now() - interval '2 hours')",
            [instance, clinic.organization_id],
        )
        found = Tenant(
            clinic, patient, str(row[0]) if row else "", written.event_id, written.message_id, pending,
            held, alert, instance, str(uuid4()),
        )  # fmt: skip
        self._records(found, text)
        return found

    def _jobs(self, clinic: Clinic, patient: Patient, due: dict[str, str], error: str) -> None:
        for job_id, at in due.items():
            self.connection.execute(
                "INSERT INTO job_queue"
                " (id, organization_id, contact_id, kind, source_event_id, run_after, last_error)"
                f" VALUES (%s, %s, %s, 'inbound_turn', gen_random_uuid(), {at}, %s)".encode(),
                [job_id, clinic.organization_id, patient.contact_id, error],
            )

    def _records(self, tenant: Tenant, text: str) -> None:
        """What the worker and the publisher have written of it."""
        organization, contact = tenant.clinic.organization_id, tenant.patient.contact_id
        key, now_ms = f"{organization}:{contact}".encode(), time.time_ns() // 1_000_000
        token = [(HEADER, Token(0, 1).encode())]
        member = WindowEvent(tenant.event_id, tenant.message_id, tenant.clinic.session_id, 0, now_ms)
        window = Window(tenant.patient.conversation_id, [member], now_ms + 60_000, 5_000, 20)
        self._send(CONTACTS_CHANGELOG, key, encode_contact(Contact("t", 0, [window])), token)
        job = Job(
            id=tenant.held, organization_id=organization, contact_id=contact, kind="inbound_turn",
            source_event_id=str(uuid4()), seq=1, created_at_ms=now_ms, run_after_ms=now_ms, payload="{}",
            events=(EventRef(tenant.event_id),),
        )  # fmt: skip
        head = Head(State.HELD, job=encode_job(job), origin=Origin("dispatch.jobs", 0, 0, now_ms))
        self._send(JOBS_CHANGELOG, key, encode_jobs(ContactJobs({tenant.held: head})), token)
        self._send(SOURCE, key, self._row(tenant, tenant.event_id), [])
        origin = Origin(self.settings.topic(SOURCE), 0, 7, now_ms)
        cause = Cause("decide", "contact_missing", text, event_id=tenant.died, attempt=5)
        headers = dead_headers(origin, cause, now_ms)
        partition, offset = self._send(DEAD, key, self._row(tenant, tenant.died, text), headers)
        tenant.place = f"dead/{partition}/{offset}"

    def shadowed(self, tenant: Tenant) -> None:
        """A shadow would have made a job of its event, of which the old drain made none."""
        at_ms = time.time_ns() // 1_000_000 - 900_000
        self.connection.execute(
            "UPDATE event_log SET status = 'done', created_at = to_timestamp(%(at)s),"
            " updated_at = to_timestamp(%(at)s + 1) WHERE id = %(id)s",
            {"at": at_ms / 1000, "id": tenant.event_id},
        )
        ensure_topics(self.settings.bootstrap(), shadow_of(self.settings))
        told = Outcome(
            organization_id=tenant.clinic.organization_id, contact_id=tenant.patient.contact_id,
            at_ms=at_ms + 2_000, stage="decide", events=(EventOutcome(event_id=tenant.event_id, seq=1),),
            status="done", outcome="job", job_id=str(uuid4()),
            facts=json.dumps({
                "conversation_id": tenant.patient.conversation_id, "opened_ms": at_ms,
                "deadline_ms": at_ms + 2_000, "warnings": ["first_look:job"],
            }),
        )  # fmt: skip
        shadows = dataclasses.replace(self, settings=shadow_of(self.settings))
        shadows._send(OUTCOMES, b"k", encode_outcome(told), [], told.at_ms)

    def _row(self, tenant: Tenant, event_id: str, text: str = "") -> bytes:
        payload = {
            "conversation_id": tenant.patient.conversation_id, "contact_id": tenant.patient.contact_id,
            "channel_session_id": tenant.clinic.session_id, "inbound_message_id": tenant.message_id,
            "note": text,
        }  # fmt: skip
        return json.dumps(
            {
                "id": event_id, "organization_id": tenant.clinic.organization_id, "event_type": SOURCE,
                "payload": json.dumps(payload), "attempts": 0, "status": "pending",
            }
        ).encode()  # fmt: skip

    def _send(
        self, topic: str, key: bytes, value: bytes, headers: list[tuple[str, bytes]], at_ms: int = 0
    ) -> tuple[int | None, int | None]:
        places: list[tuple[int | None, int | None]] = []
        self.producer.produce(
            self.settings.topic(topic), value, key, headers=headers, timestamp=at_ms,  # type: ignore[arg-type]  # str is meant
            on_delivery=lambda error, sent: places.append((sent.partition(), sent.offset())),
        )  # fmt: skip
        assert self.producer.flush(30) == 0
        return places[0]


@dataclass
class Page:
    """The page at its address."""

    address: str
    stage: Stage

    def token(self, *, operator: bool = False, phones: bool = False, of: Tenant | None = None) -> str:
        """A token of a person."""
        role: tokens.Role = "operator" if operator else "reader"
        organization = of.clinic.organization_id if of is not None else None
        found = tokens.add(self.stage.connection, "test", role, sees_phones=phones, organization=organization)
        return found.text

    def browser(self, token: str | None = None) -> Browser:
        """A client with cookies; logged in with a token."""
        client = httpx.Client(base_url=self.address, trust_env=False, timeout=60)
        browser = Browser(client)
        if token is not None:
            assert browser.log_in(token).status_code == 303
        return browser


@dataclass
class Browser:
    """What a browser does, without its eyes."""

    client: httpx.Client

    def log_in(self, token: str, following: str = "") -> httpx.Response:
        """Fill in the form."""
        csrf = csrf_of(self.client.get("/live/login").text)
        return self.client.post("/live/login", data={"csrf": csrf, "token": token, "next": following})

    def get(self, path: str) -> httpx.Response:
        """Load a page."""
        return self.client.get(path)

    def post(self, path: str, form_of: str | None = None, **fields: str) -> httpx.Response:
        """Send a form of the page `form_of` (default: the one at this path), with what was filled in."""
        page = self.client.get(form_of or path).text
        order = re.search(r'name="order" value="([^"]+)"', page)
        hidden = {"csrf": csrf_of(page), **({"order": order[1]} if order else {})}
        return self.client.post(path, data={**hidden, **fields})


def csrf_of(page: str) -> str:
    """The hidden field of a page's first form."""
    found = _CSRF.search(page)
    return found[1] if found else ""


@contextmanager
def served(stage: Stage, url: str | None = None) -> Iterator[Page]:
    """The service in a thread of its own. `url`: of the database, for whom it runs as."""
    url = url or stage.url
    settings = stage.settings.model_copy(update={"database_url": url})
    application = build(url, settings, PageDesk(url, settings))
    server = uvicorn.Server(
        uvicorn.Config(application, port=0, log_config=None, access_log=False, lifespan="on")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + READY_S
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Page(f"http://127.0.0.1:{port}", stage)
    finally:
        application.state.parts.live.closing = True
        server.should_exit = True
        thread.join(20)


def eventually(look: Callable[[], None], within_s: float = 15.0) -> None:
    """Call it until it raises no AssertionError any more."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            look()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def connected(url: str) -> Connection:
    """A connection in autocommit mode."""
    return psycopg.connect(url, autocommit=True)
