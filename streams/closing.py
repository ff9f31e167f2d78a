"""From a frozen window to the records that it sends: its job and its outcomes (pure).

Everything that a window will ever send follows from its frozen content alone (`streams.freezing`), so that
sending it again after a crash gives the same bytes (spec/dispatch.md, steps 5 to 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from schemas import alert_texts
from schemas.kinds import INBOUND_TURN
from schemas.records import Alert, EventOutcome, EventRef, Job, Outcome
from settings import Language
from streams.contact import Frozen, Window, WindowEvent
from streams.events import EVENT_TYPE
from streams.freezing import DEDUPLICATED, MAX_ATTEMPTS
from streams.identifiers import again_source_event_id, key_parts


@dataclass(frozen=True, slots=True)
class Sent:
    """What a frozen window sends: outcomes in order, and its job if it has one."""

    job: Job | None
    outcomes: tuple[Outcome, ...]
    dead: bool = False
    """The events' original records go to the dead letters too."""


def retry_outcome(
    key: bytes, window: Window, deduplicated: Sequence[tuple[str, str | None]], now_ms: int
) -> Outcome | None:
    """Tells that a window's decision failed and when it is looked at again.

    Not of events that have an outcome already: what is done stays done. None when there are no others.
    """
    organization_id, contact_id = key_parts(key)
    done = {event_id for event_id, _ in deduplicated}
    left = [member for member in window.events if member.event_id not in done]
    if not left:
        return None
    return Outcome(
        organization_id=organization_id,
        contact_id=contact_id,
        at_ms=now_ms,
        stage="decide",
        events=_event_outcomes(window, left, window.failures),
        status="pending",
        last_error=window.last_error,
        next_attempt_at_ms=window.look_at_ms,
        facts=_facts(window),
    )


def sent_of(key: bytes, window: Window, language: Language = alert_texts.DEFAULT) -> Sent:
    """The records of a frozen window: the same ones, however often it is asked.

    `language` is that of an alert's words.
    """
    frozen = window.frozen
    assert frozen is not None, "only a frozen window is sent"
    organization_id, contact_id = key_parts(key)
    outcomes = [_deduplicated(organization_id, contact_id, window, frozen)] if frozen.deduplicated else []
    job = None
    if window.events:
        if frozen.job_id is not None:
            job = _job(organization_id, contact_id, window, frozen, frozen.job_id)
        outcomes.append(
            Outcome(
                organization_id=organization_id,
                contact_id=contact_id,
                at_ms=frozen.decided_ms,
                stage="decide",
                events=_event_outcomes(
                    window, window.events, window.failures + (0 if frozen.status == "dead" else 1)
                ),
                status=frozen.status,
                outcome=frozen.outcome,
                job_id=frozen.job_id,
                last_error=frozen.last_error,
                facts=_facts(window),
                job=job,
                job_status="pending" if job else None,
                alert=_dead_alert(window, frozen, language) if frozen.status == "dead" else None,
            )
        )
    return Sent(job, tuple(outcomes), dead=frozen.status == "dead")


def invalid_payload_outcome(
    organization_id: str, event_id: str, replay: int, attempts: int, what: str, now_ms: int
) -> Outcome:
    """The outcome of an event whose payload is outside the contract (spec/dispatch.md, step 2)."""
    return Outcome(
        organization_id=organization_id,
        at_ms=now_ms,
        stage="collect",
        events=(EventOutcome(event_id=event_id, replay=replay, seq=1, attempts=attempts + 1),),
        status="done",
        outcome="invalid_payload",
        facts=_json({"what": what}),
    )


def _event_outcomes(
    window: Window, members: Sequence[WindowEvent], attempts: int
) -> tuple[EventOutcome, ...]:
    return tuple(
        EventOutcome(
            event_id=member.event_id,
            replay=member.replay,
            seq=window.seq,
            attempts=member.attempts + attempts,
        )
        for member in members
    )


def _deduplicated(organization_id: str, contact_id: str, window: Window, frozen: Frozen) -> Outcome:
    facts: dict[str, object] = {
        "conversation_id": window.conversation_id,
        "messages": {member.event_id: member.message_id for member, _ in frozen.deduplicated},
        "jobs": {member.event_id: job for member, job in frozen.deduplicated},
    }
    if frozen.of_others:
        facts["of_another_contact"] = frozen.of_others
    return Outcome(
        organization_id=organization_id,
        contact_id=contact_id,
        at_ms=frozen.decided_ms,
        stage="decide",
        events=_event_outcomes(window, [member for member, _ in frozen.deduplicated], 0),
        status="done",
        outcome=DEDUPLICATED,
        facts=_json(facts),
    )


def _job(organization_id: str, contact_id: str, window: Window, frozen: Frozen, job: str) -> Job:
    first = window.events[0]
    newest = next((one for one in window.events if one.event_id == frozen.answers), window.events[-1])
    payload: dict[str, object] = {
        "conversation_id": window.conversation_id,
        "contact_id": contact_id,
        "channel_session_id": newest.session_id,
        "inbound_message_id": newest.message_id,
        "crm_event_id": first.event_id,
        "event_ids": [member.event_id for member in window.events],
    }
    replays = {member.event_id: member.replay for member in window.events if member.replay}
    if replays:
        payload["event_replays"] = replays
    source_event_id = first.event_id
    if window.again:
        payload["replay_of"] = first.event_id
        source_event_id = again_source_event_id(first.event_id, first.replay)
    return Job(
        id=job,
        organization_id=organization_id,
        contact_id=contact_id,
        kind=INBOUND_TURN,
        source_event_id=source_event_id,
        replay=max(member.replay for member in window.events),
        seq=window.seq + 1,
        max_attempts=MAX_ATTEMPTS,
        created_at_ms=frozen.decided_ms,
        run_after_ms=frozen.decided_ms,
        payload=msgspec.json.encode(payload).decode(),
        run_by=frozen.run_by,
        events=tuple(EventRef(member.event_id, member.replay) for member in window.events),
    )


def _facts(window: Window) -> str:
    """What the trace tells of a window; `messages` (event → message) is split by event when it is written."""
    frozen = window.frozen
    facts: dict[str, object] = {
        "conversation_id": window.conversation_id,
        "messages": {member.event_id: member.message_id for member in window.events},
        "opened_ms": window.events[0].time_ms,
        "deadline_ms": window.deadline_ms,
        "length_ms": window.length_ms,
    }
    if frozen is not None and frozen.warnings:
        facts["warnings"] = frozen.warnings
    if frozen is not None and frozen.because:
        facts["because"] = frozen.because
    if window.again:
        facts["again"] = True
    return _json(facts)


def _json(facts: Mapping[str, object]) -> str:
    return msgspec.json.encode(facts).decode()


def _dead_alert(window: Window, frozen: Frozen, language: Language) -> Alert:
    spent = max(member.attempts for member in window.events) + window.failures
    return alert_texts.event_dead(
        EVENT_TYPE, frozen.outcome, spent, window.events[0].event_id, frozen.last_error, language
    )
