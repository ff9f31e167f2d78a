"""From evidence to one story (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from ops.why.evidence import EventRow, Evidence, TraceRow
from ops.why.now import Now, event_now, job_now, paused_words, window_now, window_of
from ops.why.step import Step
from ops.why.steps import steps_of

MOST_STEPS: Final = 60


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of an id, in order."""

    asked: str
    kind: str | None
    found: bool
    ids: Mapping[str, str]
    steps: Sequence[Step] = ()
    left_out: int = 0
    """Older steps that are not told."""
    now: Sequence[Now] = ()
    looked_at: Sequence[str] = ()
    notes: Sequence[str] = ()


def story(evidence: Evidence, now_ms: int, reap_ms: int) -> Story:
    """The story of what was asked for; `reap_ms` is EVENT_REAP_MS."""
    steps = steps_of(evidence)
    return Story(
        asked=evidence.asked,
        kind=evidence.kinds[0] if evidence.kinds else None,
        found=evidence.found,
        ids=_ids(evidence),
        steps=steps[-MOST_STEPS:],
        left_out=max(0, len(steps) - MOST_STEPS),
        now=_now(evidence, now_ms, reap_ms),
        looked_at=evidence.looked_at,
        notes=evidence.notes,
    )


def _ids(evidence: Evidence) -> dict[str, str]:
    """The ids that the story is about, each where there is one only."""
    rows: list[TraceRow | EventRow] = [*evidence.trace, *evidence.events]
    told: dict[str, set[str | None]] = {
        "organization": {evidence.organization_id},
        "contact": {evidence.contact_id},
        "conversation": {row.conversation_id for row in rows},
        "message": {row.message_id for row in rows if len(evidence.event_ids) == 1 and row.message_id},
        "event": {*evidence.event_ids},
        "job": {*(job.id for job in evidence.jobs), *(row.job_id for row in evidence.trace)},
    }
    single = {name: values - {None} for name, values in told.items()}
    return {name: str(next(iter(values))) for name, values in single.items() if len(values) == 1}


def _now(evidence: Evidence, now_ms: int, reap_ms: int) -> list[Now]:
    rows = {row.id: row for row in evidence.events}
    swept = {row.event_id: row for row in evidence.swept}
    live, told = evidence.live, list[Now]()
    shown: set[int] = set()
    for event_id in evidence.event_ids:
        window = window_of(live.contact, event_id) if live is not None and live.contact is not None else None
        if window is not None and id(window) in shown:
            continue
        if window is not None:
            shown.add(id(window))
        now = event_now(event_id, rows.get(event_id), live, swept.get(event_id), now_ms, reap_ms)
        if now is not None:
            told.append(now)
    if "contact" in evidence.kinds and live is not None and live.contact is not None:
        told += [
            window_now(f"conversation {window.conversation_id}", window, live, now_ms)
            for window in live.contact.windows
            if id(window) not in shown
        ]
    last = {
        row.job_id: row.outcome
        for row in evidence.trace
        if row.event_id is None and row.seq and not (row.facts or {}).get("of_another_contact")
    }
    return told + [
        job_now(job, now_ms, last.get(job.id), paused_words(evidence.paused, job.organization_id))
        for job in evidence.jobs
    ]
