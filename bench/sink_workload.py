"""Outcomes for the sink to write: each kind apart, and all of them as they come.

Every kind is as many outcomes in each round, made in the same way, so that rounds can be compared.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from schemas.records import EventOutcome, EventRef, Job, Outcome
from settings import Settings

CONTACTS = 2_000
EVENTS_A_WINDOW = 3
ROUND = 20_000
"""Outcomes of one round: ten batches of the sink, and few enough that a busy machine is as busy for both."""
MIXED = "all of it mixed"


@dataclass(frozen=True)
class Bench:
    """Where it runs."""

    url: str
    bare_url: str
    bootstrap: str
    settings: Settings
    organization: str
    contacts: list[str]


def outcomes_of(bench: Bench, count: int, events: int, job: bool) -> Iterator[Outcome]:
    """Outcomes as the window stage sends them."""
    for n in range(count):
        ids = [str(uuid.uuid4()) for _ in range(events)]
        contact = bench.contacts[n % CONTACTS]
        at_ms = time.time_ns() // 1_000_000
        conversation = str(uuid.uuid4())
        messages = {one: str(uuid.uuid4()) for one in ids}
        payload = {
            "conversation_id": conversation, "contact_id": contact, "channel_session_id": conversation,
            "inbound_message_id": messages[ids[-1]], "crm_event_id": ids[0], "event_ids": ids,
        }  # fmt: skip
        facts = {
            "conversation_id": conversation, "messages": messages, "opened_ms": at_ms - 8_000,
            "deadline_ms": at_ms, "length_ms": 8_000,
        }  # fmt: skip
        made = Job(
            id=str(uuid.uuid4()), organization_id=bench.organization, contact_id=contact, kind="inbound_turn",
            source_event_id=ids[0], seq=2, created_at_ms=at_ms, run_after_ms=at_ms,
            payload=json.dumps(payload), events=tuple(EventRef(one) for one in ids),
        )  # fmt: skip
        yield Outcome(
            organization_id=bench.organization, contact_id=contact, at_ms=at_ms, stage="decide",
            events=tuple(EventOutcome(event_id=one, seq=1, attempts=1) for one in ids), status="done",
            outcome="job" if job else "superseded_by_newer_inbound", job_id=made.id if job else None,
            job=made if job else None, job_status="pending" if job else None, facts=json.dumps(facts),
        )  # fmt: skip


def lives_of(made: list[Outcome]) -> Iterator[Outcome]:
    """Starts and ends of the jobs of windows, as the executor sends them: one of a contact at a time."""
    for first in range(0, len(made), CONTACTS):
        jobs = [outcome.job for outcome in made[first : first + CONTACTS] if outcome.job is not None]
        for seq, status, facts in (
            (3, "running", '{"attempt":1}'), (4, "done", '{"attempt":1,"duration_ms":900,"http_status":200}'),
        ):  # fmt: skip
            for job in jobs:
                moved = msgspec.structs.replace(job, seq=seq, attempt=1)
                yield Outcome(
                    organization_id=job.organization_id, contact_id=job.contact_id,
                    at_ms=time.time_ns() // 1_000_000, stage="execute", events=(), status="done",
                    outcome="done" if status == "done" else None, job_id=job.id, job=moved,
                    job_status=status, facts=facts,
                )  # fmt: skip


def windows_of(bench: Bench, of_round: int) -> list[Outcome]:
    """The windows with a job of one mixed round."""
    return list(outcomes_of(bench, of_round * 2 // 7, EVENTS_A_WINDOW, True))


def mixed_of(bench: Bench, count: int, of_round: int, before: list[Outcome]) -> Iterator[Outcome]:
    """As it comes: for each window with a job a start and an end of another one, and half a stop.

    `before`: the windows whose jobs the first round starts and ends; the others go on from the one before.
    """
    for _ in range(0, count, of_round):
        lives, windows = list(lives_of(before)), windows_of(bench, of_round)
        stops = list(outcomes_of(bench, of_round - len(windows) - len(lives), 1, False))
        mixed = [*windows, *lives, *stops]
        # each kind in its own order, one among the other
        places = sorted(range(len(mixed)), key=lambda n: _place(n, len(windows), len(lives), len(stops)))
        yield from (mixed[n] for n in places)
        before = windows


def _place(n: int, *sizes: int) -> float:
    for size in sizes:
        if n < size:
            return n / size
        n -= size
    return 1.0


@dataclass(frozen=True)
class Kind:
    """Outcomes that are measured together."""

    name: str
    outcomes: list[Outcome]
    seeded: bool = True
    """Whether their events have rows."""
    lead: list[Outcome] = field(default_factory=list)
    """Written before them and not counted: what they go on from."""

    @property
    def rows(self) -> int:
        """Rows of events and jobs that they write."""
        return sum(len(one.events) * self.seeded + (one.job is not None) for one in self.outcomes)


def kinds(bench: Bench, count: int, of_round: int) -> Iterator[Kind]:
    """What is measured apart."""
    windows, lead = list(outcomes_of(bench, count, EVENTS_A_WINDOW, True)), windows_of(bench, of_round)
    yield Kind("stops of one event", list(outcomes_of(bench, count, 1, False)))
    yield Kind("windows of three with their job", windows)
    yield Kind("starts and ends of those jobs", list(lives_of(windows)), seeded=False)
    yield Kind(MIXED, list(mixed_of(bench, count, of_round, lead)), lead=lead)
    yield Kind("windows without rows", list(outcomes_of(bench, count, EVENTS_A_WINDOW, True)), seeded=False)
