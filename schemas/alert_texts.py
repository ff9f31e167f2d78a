"""What a person reads when something went wrong: every alert's kind, title and words, in each language.

One place for all of them (spec/jobs.md, "Alerts"). A body says what the customer did not get, then what to do
first; the technical detail comes last, with the ids of one example, masked. Titles are part of an alert's
identity (organization, kind, title), so a family's title never names one example. Pure.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from schemas.alert_catalogue import FAMILIES, WORDS
from schemas.kinds import GROUP_LINK, INBOUND_TURN
from schemas.masking import masked
from schemas.records import Alert, Job
from settings import Language

DEFAULT: Final[Language] = "pt-BR"
LONGEST_REASON: Final = 400
"""Characters of an error's text at most (behaviour b126)."""
PLATFORM: Final = ""
"""The organization of an outcome that is nobody's: its alert is the platform's own."""

_GROUP_LINK_EVENTS: Final = "group_link."


class Fact(Struct, frozen=True, gc=False):
    """One piece of an alert's technical detail: a word of the catalogue and what stands in it."""

    word: str
    value: str | int


def title(family: str, language: Language = DEFAULT) -> str:
    """The title of a family of alerts."""
    return FAMILIES[family].texts[language].title


def titles(family: str) -> tuple[str, ...]:
    """The titles of a family in every language: what is open may have been written under another setting."""
    return tuple(text.title for text in FAMILIES[family].texts.values())


def kind(family: str) -> str:
    """The kind of a family's inbox items."""
    return FAMILIES[family].kind


# -- what died


def event_family(event_type: str) -> str:
    """The family of alerts about events of this type that died."""
    return "group_link_event_dead" if event_type.startswith(_GROUP_LINK_EVENTS) else "event_dead"


def event_dead(
    event_type: str,
    reason: str,
    attempts: int,
    event_id: str,
    error: str | None,
    language: Language = DEFAULT,
    *,
    certain: bool = True,
    place: str = "",
) -> Alert:
    """An event that died before it had a job.

    Args:
        event_type: `ai_agent.dispatch_requested`, `group_link.dispatch_requested`.
        reason: the outcome's name, as in docs/reasons.md.
        attempts: that were spent on it.
        event_id: of the event, the example.
        error: what went wrong; masked and cut here.
        language: of the text.
        certain: False where another copy of the event may be answered all the same.
        place: where its record stood: topic, partition, offset.
    """
    family = event_family(event_type)
    told = FAMILIES[family].texts[language]
    facts = [
        Fact("plain", event_type),
        Fact("plain", reason),
        Fact("attempts", attempts),
        Fact("event", event_id),
    ]
    if place:
        facts.append(Fact("plain", place))
    return Alert(
        kind=kind(family),
        title=told.title,
        body=_body(told.body if certain else told.perhaps, language, facts, error),
        ref_kind="event_log",
        ref_id=event_id,
    )


def event_unreadable(reason: str, place: str, error: str | None, language: Language = DEFAULT) -> Alert:
    """A record that is no event: whose it was can't be told, so the platform is alerted.

    `place` is where it stood: topic, partition, offset.
    """
    return _alert("event_unreadable", language, [Fact("plain", reason), Fact("plain", place)], error)


def job_family(job_kind: str) -> str:
    """The family of alerts about jobs of this kind that died."""
    known = {INBOUND_TURN: "job_dead", GROUP_LINK: "group_link_dead"}
    return known.get(job_kind, "other_job_dead")


def job_dead(job: Job, error: str | None, language: Language = DEFAULT) -> Alert:
    """A job that can't be finished: its attempts are spent, or trying again would not help."""
    return _about_job(job_family(job.kind), job, error, language)


def job_unknown_outcome(job: Job, language: Language = DEFAULT) -> Alert:
    """A group link that may or may not have been sent: it is held until a person has looked."""
    return _about_job("job_unknown_outcome", job, None, language)


# -- what keeps jobs waiting


def out_of_credit(job: Job, language: Language = DEFAULT) -> Alert:
    """The AI's provider has no credit left; jobs wait up to 6 hours, then they die."""
    return _about_job("out_of_credit", job, None, language)


def credentials_missing(job: Job, language: Language = DEFAULT) -> Alert:
    """The organization has no usable credentials for what the job sends."""
    return _about_job("credentials_missing", job, None, language)


def session_not_working(job: Job, session_id: str | None, language: Language = DEFAULT) -> Alert:
    """A channel session has not been WORKING for an hour, and this job waits for it."""
    facts = [Fact("session", session_id or "?"), Fact("job", job.id)]
    ref = ("channel_session", session_id) if session_id else ("job", job.id)
    return _alert("session_not_working", language, facts, None, ref=ref)


# -- the machine room: the platform's own


def clock_skew(skew_ms: int, language: Language = DEFAULT) -> Alert:
    """The database's clock and the workers' differ by more than a second; `skew_ms` = database minus ours."""
    return _alert("clock_skew", language, [Fact("milliseconds", skew_ms)], None)


def sweep_held(why: str, language: Language = DEFAULT) -> Alert:
    """The sweep does not publish lost events again, because somebody is behind."""
    return _alert("sweep_held", language, [], why)


def delays_late(p99_ms: int, language: Language = DEFAULT) -> Alert:
    """Delayed records reach `dispatch.jobs` too late; `p99_ms` is how late, in the last minute."""
    return _alert("delays_late", language, [Fact("milliseconds", p99_ms)], None)


def database_away(seconds: int, error: str | None, language: Language = DEFAULT) -> Alert:
    """Postgres could not be reached; told afterwards, since it could not be written before."""
    return _alert("database_away", language, [Fact("seconds", seconds)], error)


def slot_lost(slot: str, language: Language = DEFAULT) -> Alert:
    """The replication slot is gone or invalid: new events are not published by CDC."""
    return _alert("slot_lost", language, [Fact("slot", slot)], None)


def slot_lagging(slot: str, retained_mb: int, language: Language = DEFAULT) -> Alert:
    """The replication slot keeps more WAL than is safe."""
    return _alert("slot_lagging", language, [Fact("slot", slot), Fact("megabytes", retained_mb)], None)


def publisher_silent(slot: str, minutes: int, language: Language = DEFAULT) -> Alert:
    """A connector of Debezium gives no sign of life: new events are not published by CDC."""
    return _alert("publisher_silent", language, [Fact("slot", slot), Fact("minutes", minutes)], None)


def publisher_gap(slot: str, since: str, language: Language = DEFAULT) -> Alert:
    """Changes were lost between two slots; the publisher fills the gap from the table since that time."""
    return _alert("publisher_gap", language, [Fact("slot", slot), Fact("since", since)], None)


def dead_letters_large(
    topic: str, letters: int, language: Language = DEFAULT, *, megabytes: int = 0
) -> Alert:
    """So many dead letters of a topic, or so large ones, have been neither requeued nor dropped."""
    facts = [Fact("topic", topic), Fact("letters", letters)]
    facts += [Fact("megabytes", megabytes)] if megabytes else []
    return _alert("dead_letters_large", language, facts, None)


def outcome_dead(reason: str, place: str, error: str | None, language: Language = DEFAULT) -> Alert:
    """An outcome that could not be read or written: the CRM's tables don't show what came of something."""
    return _alert("outcome_dead", language, [Fact("plain", reason), Fact("plain", place)], error)


def drain_stopped(
    oldest: str,
    minutes: int,
    waiting: int,
    language: Language = DEFAULT,
    *,
    about: Literal["event", "job"] = "event",
) -> Alert:
    """Nothing of an organization advances any more, although messages or jobs are due (behaviour b127).

    `oldest` is the id of the oldest that waits, `minutes` for how long, `waiting` how many there are.
    """
    return _alert(
        "drain_stopped",
        language,
        [Fact("waiting", waiting), Fact("minutes", minutes), Fact(about, oldest)],
        None,
        ref=("event_log" if about == "event" else "job", oldest),
    )


# -- how a body is put together


def _about_job(family: str, job: Job, error: str | None, language: Language) -> Alert:
    facts = [
        Fact("plain", job.kind),
        Fact("attempts", job.attempt),
        Fact("job", job.id),
        Fact("event", job.source_event_id),
    ]
    return _alert(family, language, facts, error, ref=("job", job.id))


def _alert(
    family: str,
    language: Language,
    facts: list[Fact],
    error: str | None,
    *,
    ref: tuple[str, str] | None = None,
) -> Alert:
    told = FAMILIES[family].texts[language]
    return Alert(
        kind=kind(family),
        title=told.title,
        body=_body(told.body, language, facts, error),
        ref_kind=ref[0] if ref else None,
        ref_id=ref[1] if ref else None,
    )


def _body(told: str, language: Language, facts: list[Fact], error: str | None) -> str:
    words = WORDS[language]
    detail = ", ".join(words[fact.word].format(fact.value) for fact in facts)
    reason = masked(error or "", LONGEST_REASON)
    parts = [f"{detail}." if detail else "", reason]
    return f"{told}\n\n{words['detail']}: {' '.join(part for part in parts if part)}"
