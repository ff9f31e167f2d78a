"""What the stand-in engine was asked, when, and what it did: in memory, and as JSON lines."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path
from typing import Final, TextIO

import msgspec

from ops.moments import now_ms

KEPT: Final = 200_000
"""Requests that are remembered; of older ones only the counts stay."""


class Asked(msgspec.Struct, kw_only=True):
    """One request, from its arrival on. Ids only: nothing that a person said."""

    n: int
    """Which request this is of all, from 1."""
    of_job: int
    """Which one of its job, from 1."""
    at_ms: int
    """When it came, Unix ms."""
    job_id: str
    attempt: int
    """As the request says."""
    idempotency_key: str
    contact_id: str
    conversation_id: str
    event_ids: list[str]
    traceparent: str
    sent_again: bool = False
    """The client says that it sent this one already, and its connection broke."""
    mode: str = ""
    status: int | None = None
    """What was answered; null: nothing (yet)."""
    ended_ms: int | None = None
    effect: bool = False
    """Its work was done."""
    replayed: bool = False
    """Answered from memory, since a request with its key had been done."""


class Journal:
    """Requests in the order they came; a line is written when one comes and another when it ends."""

    def __init__(self, file: Path | None = None) -> None:
        self._file: TextIO | None = None
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = file.open("a", encoding="utf-8", buffering=1)
        self._asked: deque[Asked] = deque(maxlen=KEPT)
        self._of_job: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        """Idempotency key → how often its work was done."""
        self.received = 0
        """Requests so far."""

    def begin(
        self, *, job_id: str, attempt: int, key: str, contact_id: str, conversation_id: str,
        event_ids: list[str], traceparent: str, sent_again: bool = False,
    ) -> Asked:  # fmt: skip
        """Write down a request that came."""
        self.received += 1
        self._of_job[job_id] += 1
        asked = Asked(
            n=self.received,
            of_job=self._of_job[job_id],
            at_ms=now_ms(),
            job_id=job_id,
            attempt=attempt,
            idempotency_key=key,
            contact_id=contact_id,
            conversation_id=conversation_id,
            event_ids=event_ids,
            traceparent=traceparent,
            sent_again=sent_again,
        )
        self._asked.append(asked)
        self._write(asked)
        return asked

    def worked(self, asked: Asked) -> None:
        """Its work was done."""
        asked.effect = True
        self.effects[asked.idempotency_key] += 1

    def end(self, asked: Asked, status: int | None) -> None:
        """Write down what it was answered."""
        asked.status, asked.ended_ms = status, now_ms()
        self._write(asked)

    def requests(self, *, job_id: str | None = None, contact_id: str | None = None) -> list[Asked]:
        """Requests in the order they came, of one job or one contact if asked."""
        return [
            one
            for one in tuple(self._asked)
            if job_id in (None, one.job_id) and contact_id in (None, one.contact_id)
        ]

    def clear(self) -> None:
        """Forget everything that is in memory."""
        self._asked.clear()
        self._of_job.clear()
        self.effects.clear()
        self.received = 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, asked: Asked) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(asked).decode() + "\n")
