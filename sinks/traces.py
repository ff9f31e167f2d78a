"""From an outcome to the rows of `rajada.trace`: what happened to each event and job. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from schemas.records import EventOutcome, Job, Outcome
from sinks.rows import TraceRow

COPY: Final = (
    "COPY rajada.trace (at, organization_id, contact_id, conversation_id, message_id, event_id, job_id,"
    " replay, seq, stage, status, outcome, facts) FROM STDIN"
)
"""The statement that takes the lines of `copied`."""

_NULL: Final = "\\N"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


class _Place(Struct, gc=False):
    """The parts of a job's payload that the trace is found by."""

    conversation_id: str | None = None
    inbound_message_id: str | None = None


class _Given(Struct, gc=False):
    """The part of a handler's result that is kept: the rest may be anybody's words."""

    provider_message_id: str | None = None


_place_decoder = msgspec.json.Decoder(_Place)
_facts_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_messages_decoder = msgspec.json.Decoder(dict[str, str])
_given_decoder = msgspec.json.Decoder(_Given)
_text_decoder = msgspec.json.Decoder(str | None)


def trace_rows(n: int, outcome: Outcome) -> Iterable[TraceRow]:
    """One row an event, one for the job, and one for an outcome that is about neither.

    `n` is the outcome's place in its batch.
    """
    job = outcome.job
    place = _place(job)
    conversation_id, messages, facts = _split(outcome.facts)
    conversation_id = _uuid(place.conversation_id) or _uuid(conversation_id)
    told: dict[int, str] = {}

    def row(
        *,
        event: EventOutcome | None,
        job_id: str | None,
        replay: int,
        seq: int,
        status: str | None,
        attempts: int,
    ) -> TraceRow:
        # A job answers its newest message; an event is about its own.
        message_id = messages.get(event.event_id) if event else place.inbound_message_id
        return TraceRow(
            n=n,
            at_ms=outcome.at_ms,
            organization_id=outcome.organization_id or None,
            contact_id=outcome.contact_id,
            conversation_id=conversation_id,
            message_id=_uuid(message_id),
            event_id=event.event_id if event else None,
            job_id=job_id,
            replay=replay,
            seq=seq,
            stage=outcome.stage,
            status=status,
            outcome=outcome.outcome,
            facts=told.get(attempts) or told.setdefault(attempts, _told(facts, attempts, outcome)),
        )

    for event in outcome.events:
        yield row(
            event=event, job_id=outcome.job_id, replay=event.replay, seq=event.seq, status=outcome.status,
            attempts=event.attempts,
        )  # fmt: skip
    if job is not None:
        yield row(
            event=None, job_id=job.id, replay=job.replay, seq=job.seq, status=outcome.job_status or "pending",
            attempts=job.attempt,
        )  # fmt: skip
    elif not outcome.events:
        yield row(event=None, job_id=outcome.job_id, replay=0, seq=0, status=outcome.status, attempts=0)


def _split(facts: str | None) -> tuple[str | None, Mapping[str, str], dict[str, msgspec.Raw] | str]:
    """Of a window's facts: the conversation, each event's message, and the facts without the messages.

    What is no JSON object comes back as it is, for Postgres to refuse.
    """
    if facts is None:
        return None, {}, {}
    try:
        told = _facts_decoder.decode(facts)
        messages = _messages_decoder.decode(told.pop("messages", msgspec.Raw(b"{}")))
        conversation_id = _text_decoder.decode(told.get("conversation_id", b"null"))
    except (msgspec.DecodeError, RecursionError):
        return None, {}, facts
    return conversation_id, messages, told


def _told(facts: dict[str, msgspec.Raw] | str, attempts: int, outcome: Outcome) -> str:
    """The facts with what every outcome tells of itself."""
    if isinstance(facts, str):
        return facts
    told: dict[str, object] = {**facts, "attempts": attempts}
    if outcome.last_error is not None:
        told["last_error"] = outcome.last_error
    message_id = provider_message_id(outcome.result)
    if message_id is not None:
        told["provider_message_id"] = message_id
    if outcome.next_attempt_at_ms is not None:
        told["next_attempt_at_ms"] = outcome.next_attempt_at_ms
    return msgspec.json.encode(told).decode()


def provider_message_id(result: str | None) -> str | None:
    """Of what a handler gave back; None: it gave nothing, or something of another shape."""
    if result is None:
        return None
    try:
        return _given_decoder.decode(result).provider_message_id
    except (msgspec.DecodeError, RecursionError):
        return None


def _place(job: Job | None) -> _Place:
    if job is None:
        return _Place()
    try:
        return _place_decoder.decode(job.payload)
    except (msgspec.DecodeError, RecursionError):  # other kinds have other payloads
        return _Place()


def _uuid(text: str | None) -> str | None:
    """The text if it is a UUID: the trace's columns hold nothing else."""
    return text if text is not None and _UUID.fullmatch(text) else None


# -- as COPY takes them


def copied(row: TraceRow) -> str | None:
    """The row as a line of COPY's text format; None: it lacks what only the event's own row knows.

    For rows whose ids Postgres has taken before. A third of what the same row costs as JSON, and most of what
    the sink writes are traces. None too for a time that no calendar has, so that Postgres refuses it in its
    own words.
    """
    second = _second(row.at_ms // 1000)
    if row.message_id is None or row.conversation_id is None or row.facts is None or second is None:
        return None
    facts = row.facts.replace("\\", "\\\\")
    if "\n" in facts or "\t" in facts or "\r" in facts:
        facts = row.facts.translate(_ESCAPED)
    return "\t".join(
        (
            f"{second}.{row.at_ms % 1000:03d}Z", row.organization_id or _NULL, _text(row.contact_id),
            row.conversation_id, row.message_id, row.event_id or _NULL, row.job_id or _NULL, str(row.replay),
            str(row.seq), _text(row.stage), _text(row.status), _text(row.outcome), facts + "\n",
        )
    )  # fmt: skip


@lru_cache(maxsize=1_000)
def _second(unix_s: int) -> str | None:
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(maxsize=10_000)
def _text(value: str | None) -> str:
    return _NULL if value is None else value.translate(_ESCAPED)
