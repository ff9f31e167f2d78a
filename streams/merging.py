"""Turns of a conversation that wait become one: they read the same history (spec/jobs.md, "Lanes"; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.kinds import INBOUND_TURN
from streams.contact_jobs import ContactJobs
from streams.heads import Head, State, place_of
from streams.job_endings import leave_to
from streams.job_records import take_events_in
from streams.job_table import Event

MOST_EVENTS: Final = 5_000
"""Events that one turn answers for after a merge: its record is to stay far below what Kafka takes."""


def merge(jobs: ContactJobs, job_id: str, now_ms: int) -> tuple[str, int]:
    """Let waiting turns of a conversation that were never attempted become one: its id, how many it took in.

    The newest survives and carries all events (spec/jobs.md, "Lanes"). A job made by `--again` stays alone.
    """
    first = jobs.heads[job_id]
    if first.kind != INBOUND_TURN or first.conversation_id is None or first.attempt:
        return job_id, 0
    alike = [
        (other_id, other)
        for other_id, other in jobs.waiting()
        if other.order >= first.order
        and other.conversation_id == first.conversation_id
        and other.kind == first.kind
        and not other.attempt
    ]
    if len(alike) < 2:  # as nearly always: no job has to be decoded for that
        return job_id, 0
    together = _together(alike)
    if len(together) < 2 or together[0][0] != job_id:
        return job_id, 0
    *taken, (survivor_id, survivor) = together
    take_events_in(survivor, taken)
    survivor.seq = max(head.seq for _, head in together) + 1
    survivor.priority = min(head.priority for _, head in together)
    survivor.replay = max(head.replay for _, head in together)
    # who has waited longest for a session that doesn't work: the alert is due after an hour of that
    waits = [head.not_working_since_ms for _, head in together if head.not_working_since_ms]
    survivor.not_working_since_ms = min(waits, default=0)
    for _, head in taken:
        leave_to(Event.MERGE, head, survivor_id, survivor.seq, f"merged:{survivor_id}", now_ms)
    return survivor_id, len(taken)


def _together(turns: Sequence[tuple[str, Head]]) -> list[tuple[str, Head]]:
    """Those of a conversation's turns, from the oldest on, that one turn can answer for."""
    found: list[tuple[str, Head]] = []
    events = 0
    for job_id, head in turns:
        job = head.whole()
        if place_of(job).replay_of is not None:
            continue
        events += len(job.events)
        if found and events > MOST_EVENTS:
            break
        found.append((job_id, head))
    return found


def merge_waiting(jobs: ContactJobs, now_ms: int) -> int:
    """Merge all waiting turns that can be one, whatever they wait for; how many were taken in."""
    merged = 0
    for job_id, head in jobs.waiting():
        if head.state is State.WAITING:  # else taken in by now
            merged += merge(jobs, job_id, now_ms)[1]
    return merged
