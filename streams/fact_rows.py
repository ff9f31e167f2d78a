"""From the rows of the three statements to facts (pure).

The columns are those that `db/queries/decide_*.sql` name at their head, in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from streams.eligibility import EligibilityFacts
from streams.followup import Flow, FollowupFacts, armed_pointers, read_flow
from streams.question import Facts, Question, Unreadable
from streams.stored_json import read_stored_json

Row = tuple[Any, ...]

NO_FOLLOWUP: Final = FollowupFacts(
    flows=(),
    conversation_and_contact_found=False,
    is_group=False,
    is_blocked=False,
    force_human=False,
    silenced=False,
    assignee_kind=None,
    tags=frozenset(),
    enrolled_by_window=False,
    live_enrollment=False,
    live_return_since=False,
    gap_ms=None,
)
"""Of a window whose organization has no return flow."""


Session = tuple[str, str]
"""Organization and channel session."""
Serving = tuple[bool, bool]
"""Whether an agent can execute on a session, and whether one of those is assisted."""


def serving_by_session(
    questions: Sequence[Question], rows: Sequence[Row | Exception]
) -> dict[Session, Serving]:
    """Who serves each session, which stands with the first of its windows in `decide_facts`."""
    return {
        (question.organization_id, question.channel_session_id): (row[6], row[7])
        for question, row in zip(questions, rows, strict=True)
        if not isinstance(row, Exception) and row[6] is not None
    }


@dataclass(slots=True)
class KnownEvent:
    """What the database has of an event: an outcome, or a row that belongs to another contact."""

    job_id: str | None = None
    contact_id: str | None = None
    """Whose event it is, where that is known."""
    done: bool = False


Known = dict[tuple[str, str], KnownEvent]
"""By organization and event."""


def known_events(rows: Sequence[Row | Exception]) -> Known:
    """The known events, which stand with the first window that each statement was asked for.

    Of several rows that tell of an event the first with a job counts: `event_log` knows to which job it was
    moved, then comes the job made for it, then those that took it in. So it is with the contact.
    """
    known: Known = {}
    for row in rows:
        if isinstance(row, Exception) or row[12] is None:
            continue
        for organization_id, event_id, job_id, contact_id, done in zip(*row[11:16], strict=True):
            found = known.setdefault((organization_id, event_id), KnownEvent())
            found.job_id = found.job_id or job_id
            found.contact_id = found.contact_id or contact_id
            found.done = found.done or done
    return known


def facts_of(
    question: Question,
    row: Row,
    serving: Serving,
    known: Known,
    followup: FollowupFacts | Unreadable,
    eligibility: EligibilityFacts | Unreadable | None,
) -> Facts:
    """The facts of one window from its row of `decide_facts`."""
    (
        _,
        now_ms,
        organization_status,
        dispatch_mode,
        conversation_found,
        is_group,
        _,
        _,
        latest_message_id,
        unread_media_created_ms,
        contact_found,
        *_,
    ) = row
    of_window = _known_of(question, known) if known else {}
    return Facts(
        now_ms,
        organization_status,
        dispatch_mode,
        conversation_found,
        is_group,
        *serving,
        latest_message_id,
        unread_media_created_ms,
        contact_found,
        {event_id: one.job_id for event_id, one in of_window.items() if one.done},
        followup,
        eligibility,
        {
            event_id: one.job_id
            for event_id, one in of_window.items()
            if one.contact_id not in (None, question.contact_id)
        },
    )


def _known_of(question: Question, known: Known) -> dict[str, KnownEvent]:
    organization_id = question.organization_id
    return {
        event.event_id: known[organization_id, event.event_id]
        for event in question.events
        if (organization_id, event.event_id) in known
    }


def flows_by_organization(
    questions: Sequence[Question], rows: Sequence[Row | Exception]
) -> dict[str, tuple[Flow, ...]]:
    """The return flows of each organization, which stand with the first of its windows."""
    flows: dict[str, tuple[Flow, ...]] = {}
    for question, row in zip(questions, rows, strict=True):
        if not isinstance(row, Exception) and row[1] is not None:
            flows[question.organization_id] = _flows(row[1])
    return flows


def _flows(document: str) -> tuple[Flow, ...]:
    told: Mapping[str, Any] = orjson.loads(document)
    armed = armed_pointers(_readable(text) for text in told["followups"])
    flows = (
        read_flow(pointer_id, _readable(trigger), _readable(graph), armed)
        for pointer_id, trigger, graph in told["flows"]
    )
    return tuple(flow for flow in flows if flow is not None)


def _readable(text: str | None) -> object:
    """The JSON of a text; None where there is none or nobody can read it, which no rule takes for a yes."""
    if text is None:
        return None
    try:
        return read_stored_json(text)
    except ValueError:
        return None


def followup_facts(row: Row, flows: tuple[Flow, ...]) -> FollowupFacts:
    """What stop 6 needs of one window, from its row of `decide_followup` and its organization's flows."""
    if not flows or not row[2]:
        return NO_FOLLOWUP
    (
        _,
        _,
        _,
        is_group,
        is_blocked,
        force_human,
        silenced,
        assignee_kind,
        tags,
        by_window,
        live,
        since,
        gap_ms,
    ) = row
    return FollowupFacts(
        flows=flows,
        conversation_and_contact_found=True,
        is_group=is_group is not False,
        is_blocked=is_blocked is True,
        force_human=force_human is True,
        silenced=silenced is True,
        assignee_kind=assignee_kind,
        tags=frozenset(tag for tag in tags or () if tag is not None),
        enrolled_by_window=by_window is True,
        live_enrollment=live is True,
        live_return_since=since is True,
        gap_ms=gap_ms,
    )


def eligibility_facts(row: Row) -> EligibilityFacts | Unreadable | None:
    """What stop 7 needs of one window, from its row of `decide_eligibility`; None: no verdict (b067)."""
    _, found, now_ms, metadata, force_human, silenced, assignee_kind, phone_number, authorized_ms = row
    if not found:
        return None
    try:
        channel_metadata = read_stored_json(metadata)
    except ValueError:
        return Unreadable("channel_metadata")
    return EligibilityFacts(
        now_ms=now_ms,
        channel_metadata=channel_metadata,
        force_human=force_human is True,
        silenced=silenced is True,
        assignee_kind=assignee_kind,
        phone_number=phone_number,
        authorized_ms=authorized_ms,
    )
