"""What becomes of a window that is due: one job, a stop with a reason, or a later look (pure).

`decide` turns the facts that the database told into a decision. The stops are asked in the order of
spec/dispatch.md, step 4, and the first that stops wins (b001); each is a small function below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from streams import media
from streams.eligibility import veto
from streams.followup import yields
from streams.question import AskedEvent, Facts, Question, Rules, Unreadable

# -- what is answered


Because = str | int | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    deduplicated: tuple[tuple[str, str | None], ...] = ()
    """Events that leave the window since they have an outcome (stop 0), each with its job if known."""
    of_others: tuple[str, ...] = ()
    """Of those, the events whose id is another contact's: what is known of the id is not about them."""
    warnings: tuple[str, ...] = ()
    """What the decision went on without: `followup_unreadable`, `eligibility_unreadable`,
    `media_wait_ceiling_passed`, `starving_conversation`."""


@dataclass(frozen=True, slots=True)
class Enqueue(_Answer):
    """One job for the window's events."""

    answers: str
    """The event whose message the job answers: the conversation's latest, else the log's last."""


@dataclass(frozen=True, slots=True)
class Stop(_Answer):
    """The window ends without a job."""

    reason: str
    """As in spec/dispatch.md: `org_not_operating`, `not_eligible:<veto>`, …"""
    because: Mapping[str, Because] = field(default_factory=dict, compare=False)
    """What was seen, for the trace; no personal data."""


@dataclass(frozen=True, slots=True)
class WaitForMedia(_Answer):
    """The window stays open until an audio or photo was read (stop 8)."""

    recheck_in_ms: int


@dataclass(frozen=True, slots=True)
class Fail(_Answer):
    """A failure that may pass: spends an attempt, is tried again, is dead after the fifth."""

    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class LookAgain(_Answer):
    """The window could not be read in time: looked at again without spending an attempt."""

    in_ms: int
    error_class: str


@dataclass(frozen=True, slots=True)
class Emptied(_Answer):
    """Every event of the window has its outcome already."""


Decision = Enqueue | Stop | WaitForMedia | Fail | LookAgain | Emptied

CONTACT_MISSING: Final = "contact_missing"
SUPERSEDED: Final = "superseded_by_newer_inbound"


def decide(question: Question, facts: Facts, rules: Rules) -> Decision:
    """The decision on one window; total: any question with any facts gives one, nothing is raised."""
    gone, of_others, events = _stop_0(question, facts)
    if not events:
        return Emptied(deduplicated=gone, of_others=of_others)
    asked = _Asked(question, events, facts, rules, [])
    decision: Stop | WaitForMedia | Fail | Enqueue | None = None
    for stop in _STOPS:
        decision = stop(asked)
        if decision is not None:
            break
    else:
        decision = Enqueue(_answered(asked))
    return replace(decision, deduplicated=gone, of_others=of_others, warnings=tuple(asked.warnings))


def _stop_0(
    question: Question, facts: Facts
) -> tuple[tuple[tuple[str, str | None], ...], tuple[str, ...], tuple[AskedEvent, ...]]:
    """The events that leave the window, each with its job; those of them that are another's; the rest."""
    known = dict(facts.of_others) if question.again else {**facts.known, **facts.of_others}
    if not known:
        return (), (), question.events
    gone = tuple(
        (event.event_id, known[event.event_id]) for event in question.events if event.event_id in known
    )
    of_others = tuple(event_id for event_id, _ in gone if event_id in facts.of_others)
    return gone, of_others, tuple(event for event in question.events if event.event_id not in known)


# -- the stops


@dataclass(frozen=True, slots=True)
class _Asked:
    """What each stop looks at; `events` are those that stop 0 left."""

    question: Question
    events: tuple[AskedEvent, ...]
    facts: Facts
    rules: Rules
    warnings: list[str]


def _organization_stops(asked: _Asked) -> Stop | None:
    """Stops 1 and 2: only the exact status `active` operates (b010 to b014), `external` is another's."""
    if asked.facts.organization_status != "active":
        return Stop("org_not_operating", because={"organization_status": asked.facts.organization_status})
    if asked.facts.dispatch_mode == "external":
        return Stop("org_external_dispatch")
    return None


def _conversation_stops(asked: _Asked) -> Stop | None:
    """Stop 3: anything but false stops (b022)."""
    if not asked.facts.conversation_found or asked.facts.is_group is not False:
        found, is_group = asked.facts.conversation_found, asked.facts.is_group
        seen = {"conversation_found": found, "is_group": is_group}
        return Stop("group_or_missing_conversation", because=seen)
    return None


def _nobody_executes(asked: _Asked) -> Stop | None:
    """Stop 4."""
    return None if asked.facts.agent_can_execute else Stop("no_published_agent")


def _superseded(asked: _Asked) -> Stop | None:
    """Stop 5: a newer message has its own event, and that turn reads the whole history (b042)."""
    question, latest = asked.question, asked.facts.latest_message_id
    if question.again or latest is None or any(event.message_id == latest for event in asked.events):
        return None
    since_ms = question.superseded_since_ms
    if since_ms is not None and question.now_ms - since_ms > question.max_wait_ms:
        asked.warnings.append("starving_conversation")
        return None
    return Stop(SUPERSEDED, because={"latest_message_id": latest})


def _yielded(asked: _Asked) -> Stop | None:
    """Stop 6; fail-open (b155)."""
    followup = asked.facts.followup
    if isinstance(followup, Unreadable):
        asked.warnings.append("followup_unreadable")
        return None
    return Stop("yielded_to_followup") if yields(followup) else None


def _not_eligible(asked: _Asked) -> Stop | None:
    """Stop 7; fail-open (b069), and not asked where an assisted agent serves the session (b070)."""
    eligibility = asked.facts.eligibility
    if asked.facts.assisted or eligibility is None:
        return None
    if isinstance(eligibility, Unreadable):
        asked.warnings.append("eligibility_unreadable")
        return None
    why = veto(eligibility, asked.rules.allowlist_ttl_days)
    return Stop(f"not_eligible:{why}") if why is not None else None


def _media_is_read(asked: _Asked) -> WaitForMedia | None:
    """Stop 8: waits, at most to the ceiling; then goes on with a warning (b077)."""
    question, facts = asked.question, asked.facts
    created_ms = facts.unread_media_created_ms
    left_ms = media.wait_ms(
        created_ms, facts.db_now_ms, question.now_ms, question.deadline_ms, asked.rules.media_recheck_ms
    )
    if left_ms:
        return WaitForMedia(left_ms)
    if created_ms is not None:
        asked.warnings.append("media_wait_ceiling_passed")
    return None


def _too_old(asked: _Asked) -> Stop | None:
    """Stop 9."""
    max_age_s = asked.rules.event_max_age_s
    if max_age_s is None:
        return None
    newest_ms = max(event.time_ms for event in asked.events)
    age_ms = asked.question.now_ms - newest_ms
    return Stop("too_old", because={"age_ms": age_ms}) if age_ms > max_age_s * 1000 else None


def _contact_missing(asked: _Asked) -> Fail | None:
    """A job needs its contact: perhaps its row is still to come (b115)."""
    if asked.facts.contact_found:
        return None
    return Fail(
        CONTACT_MISSING, "the payload's contact is not in the organization: was it deleted or merged?"
    )


_STOPS: Final[tuple[Callable[[_Asked], Stop | WaitForMedia | Fail | None], ...]] = (
    _organization_stops,
    _conversation_stops,
    _nobody_executes,
    _superseded,
    _yielded,
    _not_eligible,
    _media_is_read,
    _too_old,
    _contact_missing,
)


def _answered(asked: _Asked) -> str:
    for event in reversed(asked.events):
        if event.message_id == asked.facts.latest_message_id:
            return event.event_id
    return asked.events[-1].event_id
