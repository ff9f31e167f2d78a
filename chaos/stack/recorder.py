"""Who puts events in and knows each: messages of a clinic at a steady rate, and enrolments over the web."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import httpx
import psycopg

from chaos.stack.books import Put
from db.queries import load
from ops.clinic import Clinic, Connection, Patient

BURSTS: Final = (1, 1, 2, 3, 4)
"""How many messages a contact writes in one go."""
AGAIN_S: Final = 0.2
LINK_EVERY_S: Final = 1.5
WEB_TIMEOUT_S: Final = 10.0

Connect = Callable[[], Connection]


def now_ms() -> int:
    """Unix ms of this process' clock, which is the engine's, too."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Asked:
    """An enrolment that was asked for."""

    phone: str
    job_id: str | None = None
    """None: nobody knows whether it was taken."""


@dataclass(slots=True)
class Recorder:
    """Writes messages at `rate` a second until it is stopped; `pause` holds it while a database changes."""

    connect: Connect
    clinic: Clinic
    patients: Sequence[Patient]
    rate: float
    seed: int
    bursts: Sequence[int] = BURSTS
    remember: bool = True
    """False: count only, for a run of hours."""
    put: list[Put] = field(default_factory=list)
    written: int = 0
    """Events whose transaction was confirmed."""
    asked: list[Asked] = field(default_factory=list)
    after_write: Callable[[Sequence[Put]], None] | None = None
    """Told of what was committed, at once: who disturbs change data capture."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _may: threading.Event = field(default_factory=threading.Event)
    _at_rest: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin to write."""
        self._may.set()
        writer = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._threads.append(writer)
        writer.start()

    def enrol(self, url: Callable[[], str], token: str, organization_id: str) -> None:
        """Begin to ask for group links, too; `url` says where the web process is by now."""
        asking = threading.Thread(
            target=self._enrol_all, args=(url, token, organization_id), name="enrolments", daemon=True
        )
        self._threads.append(asking)
        asking.start()

    def pause(self) -> None:
        """Write nothing from now on; returns when nothing is under way any more."""
        self._at_rest.clear()
        self._may.clear()
        self._at_rest.wait(30)

    def resume(self) -> None:
        """Go on."""
        self._may.set()

    def stop(self) -> None:
        """End; waits for what is under way."""
        self._stop.set()
        self._may.set()
        for thread in self._threads:
            thread.join(30)

    def _write_all(self) -> None:
        dice, connection = random.Random(self.seed), None
        due = time.monotonic()
        while not self._stop.is_set():
            if not self._may.is_set():
                self._at_rest.set()
                self._may.wait()
                due = time.monotonic()
                continue
            patient, size = dice.choice(self.patients), dice.choice(self.bursts)
            due += size / self.rate
            if (ahead := due - time.monotonic()) > 0:
                self._stop.wait(ahead)
            elif ahead < -1:
                due = time.monotonic()  # what was not written while the database was away stays unwritten
            try:
                connection = connection or self.connect()
                self._write(connection, patient, size)
            except psycopg.Error:
                with contextlib.suppress(psycopg.Error):
                    if connection is not None:
                        connection.close()
                connection = None
                self._stop.wait(AGAIN_S)
        self._at_rest.set()
        if connection is not None:
            connection.close()

    def _write(self, connection: Connection, patient: Patient, size: int) -> None:
        """One burst in one statement; it is noted before it is sent, since its fate may stay unknown."""
        burst = [
            Put(str(uuid4()), str(uuid4()), patient.contact_id, patient.conversation_id, now_ms())
            for _ in range(size)
        ]
        if self.remember:
            self.put += burst
        connection.execute(
            load("clinic_messages"),
            {
                "organization": self.clinic.organization_id,
                "session": self.clinic.session_id,
                "events": [one.event_id for one in burst],
                "messages": [one.message_id for one in burst],
                "contacts": [one.contact_id for one in burst],
                "conversations": [one.conversation_id for one in burst],
                "kinds": ["text"] * size,
                "media": [None] * size,
            },
        )
        for one in burst:
            one.known, one.after_ms = True, now_ms()
        self.written += size
        if self.after_write is not None:
            self.after_write(burst)

    def _enrol_all(self, url: Callable[[], str], token: str, organization_id: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        for number in itertools.count(1):
            if self._stop.wait(LINK_EVERY_S):
                return
            self._may.wait()
            asked = Asked(f"+55119{number:08d}")
            self.asked.append(asked)
            body = {
                "flow": "business",
                "organizationId": organization_id,
                "enrolmentId": f"enr-{number}",
                "studentName": f"Student {number}",
                "phone": asked.phone,
                "groupLink": "https://chat.whatsapp.com/Kd8aQ1",
                "templateName": "welcome_group",
                "templateLanguage": "pt_BR",
            }
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.post(
                    f"{url()}/", json=body, headers=headers, timeout=WEB_TIMEOUT_S, trust_env=False
                )
                if answer.status_code == httpx.codes.ACCEPTED:
                    asked.job_id = answer.json()["jobId"]
