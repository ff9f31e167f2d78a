"""How a job leaves a state: delayed, held, ended, dead, taken over by a newer one (pure).

The second half of every transition (`streams.transitions`): the head moves, and what has to be sent for it is
named. Rules: spec/jobs.md, "Lanes" and "States". Times are Unix ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from schemas import alert_texts
from schemas.kinds import INBOUND_TURN
from schemas.records import Alert, Job
from settings import Language
from streams.contact_jobs import ContactJobs
from streams.heads import Head, State, place_of
from streams.job_records import STAGE, bury, send_later, tell
from streams.job_table import Event, targets


@dataclass(frozen=True, slots=True)
class Rules:
    """What an installation may set."""

    kinds: frozenset[str]
    """Kinds that there is a handler for."""
    language: Language = "pt-BR"
    on_unknown: Literal["hold", "resend"] = "hold"
    """Group links: what to do when nobody knows whether the message went out (GROUP_LINK_ON_UNKNOWN)."""
    group_link_delay_ms: int = 60_000
    releases: frozenset[str] = frozenset()
    """Codes of holds whose reason is gone by now: such jobs are released when they are taken over."""


class Refused(AssertionError):
    """A transition that the table doesn't have: a fault of the code, never of the data."""


def move(event: Event, head: Head, to: State) -> None:
    """Lead a head where the table says that the event may lead it. Raises Refused."""
    if to not in targets(event, head.state):
        raise Refused(f"{event} leads from {head.state} to {to}")
    head.state = to


def delay(
    key: bytes,
    head: Head,
    delay_ms: int,
    reason: str,
    now_ms: int,
    *,
    facts: Mapping[str, object] | None = None,
    alert: Alert | None = None,
) -> None:
    """Name the next record of a delayed job, and say when it will run."""
    head.seq += 1
    head.copy += 1
    head.run_after_ms = now_ms + delay_ms
    job = head.whole()
    send_later(key, head, job, now_ms)
    tell(head, job, now_ms, f"retry:{reason}", facts=facts, alert=alert)


def hold(
    event: Event,
    head: Head,
    reason: str,
    now_ms: int,
    *,
    facts: Mapping[str, object] | None = None,
    alert: Alert | None = None,
    stage: str = STAGE,
) -> None:
    """Keep a job until somebody releases it."""
    move(event, head, State.HELD)
    head.hold, head.held = None, reason
    head.seq += 1
    tell(head, head.whole(), now_ms, f"held:{reason}", facts=facts, alert=alert, stage=stage)


def let_go(event: Event, head: Head, now_ms: int) -> None:
    """Put a job that is held or delayed back into its lane, due at once.

    Of one whose last attempt is spent nobody knows what came of that, and a person orders it all the same: it
    is given back, so that one click sends (spec/group_link.md) and no attempt is above the maximum.
    """
    head.attempt = min(head.attempt, max(head.whole().max_attempts, 1) - 1)
    move(event, head, State.UNVERIFIED if head.state is State.HELD and head.unseen else State.WAITING)
    head.unseen, head.held, head.alarmed, head.looks = False, None, False, 0
    head.seq += 1
    head.copy += 1  # the record in the delay topics, if there is one, comes too late then
    head.run_after_ms = now_ms


def end(
    event: Event,
    head: Head,
    state: State,
    outcome: str,
    now_ms: int,
    *,
    facts: Mapping[str, object] | None = None,
    result: Mapping[str, object] | None = None,
    stage: str = STAGE,
) -> Job:
    """End a job as done or failed; returns it as it ended."""
    move(event, head, state)
    head.seq += 1
    if state is State.DONE:
        head.last_error = None
    job = head.whole()
    tell(head, job, now_ms, outcome, facts=facts, result=result, stage=stage)
    _close(head, outcome, now_ms)
    return job


def die(
    event: Event,
    job_id: str,
    head: Head,
    code: str,
    reason: str,
    rules: Rules,
    now_ms: int,
    facts: Mapping[str, object] | None = None,
    *,
    cut: bool = False,
) -> None:
    """Give a job up: its record into the dead letters, an alert to whoever can help.

    `cut`: tell of it without its content, which is too large for that.
    """
    move(event, head, State.DEAD)
    head.seq += 1
    head.last_error = reason
    head.first_failed_ms = head.first_failed_ms or now_ms
    bury(job_id, head, code, now_ms)
    job = head.whole()
    if cut:
        job = msgspec.structs.replace(job, payload="{}", events=())
    alert = alert_texts.job_dead(job, reason, rules.language)
    tell(head, job, now_ms, f"dead:{code}", facts=facts, alert=alert)
    _close(head, f"dead:{code}", now_ms)


def leave_to(event: Event, head: Head, survivor_id: str, event_seq: int, outcome: str, now_ms: int) -> None:
    """End a job whose events another one takes over: its own row, then its events with the seq they get."""
    move(event, head, State.DONE)
    head.seq += 1
    job = head.whole()
    tell(head, job, now_ms, outcome)
    tell(head, job, now_ms, outcome, moved=(survivor_id, event_seq, job.events))
    _close(head, outcome, now_ms)
    head.conversation_id = None
    if not head.started_ms:  # no rate and no distance is counted from it
        head.session_id, head.kind = None, ""


def cover(jobs: ContactJobs, newer_id: str, newer: Head, job: Job, now_ms: int) -> None:
    """A turn is done: older ones of its conversation that wait for another attempt are answered by it."""
    if newer.kind != INBOUND_TURN or newer.conversation_id is None or place_of(job).replay_of is not None:
        return
    for head in jobs.heads.values():
        again = head.state is State.DELAYED or (head.state is State.WAITING and head.attempt > 0)
        if (
            again
            and head.order < newer.order
            and head.conversation_id == newer.conversation_id
            and head.kind == newer.kind
            and place_of(head.whole()).replay_of is None
        ):
            newer.seq = max(newer.seq, head.seq) + 1
            leave_to(Event.COVER, head, newer_id, newer.seq, f"covered_by:{newer_id}", now_ms)


def shrink(jobs: ContactJobs, below_ms: int) -> int:
    """Put heads away that ended before, with only what is asked of them still; how many got smaller for it.

    A dead one keeps all: it may be taken up again.
    """
    over = {
        job_id: head
        for job_id, head in jobs.heads.items()
        if head.state.ended and not head.unsent and head.ended_ms < below_ms
    }
    smaller = sum(head.shrink() for head in over.values() if head.state is not State.DEAD)
    jobs.put_away(over)
    return smaller


def _close(head: Head, outcome: str, now_ms: int) -> None:
    head.outcome, head.ended_ms = outcome, now_ms
    head.job, head.origin, head.hold, head.cancel = b"", None, None, None
