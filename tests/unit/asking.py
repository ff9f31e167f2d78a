"""Questions and facts for tests: by default everything is well and a job is due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streams.eligibility import EligibilityFacts
from streams.followup import Flow, FollowupFacts
from streams.question import AskedEvent, Facts, Question, Rules

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
RULES = Rules()

EVENTS = (
    AskedEvent("event-1", "message-1", NOW_MS - 9_000),
    AskedEvent("event-2", "message-2", NOW_MS - 7_000),
    AskedEvent("event-3", "message-3", NOW_MS - 5_000),
)
QUESTION = Question(
    organization_id="organization",
    conversation_id="conversation",
    contact_id="contact",
    channel_session_id="session",
    events=EVENTS,
    now_ms=NOW_MS,
    deadline_ms=NOW_MS - 1_000,
)
ELIGIBLE = EligibilityFacts(
    now_ms=NOW_MS,
    channel_metadata={},
    force_human=False,
    silenced=False,
    assignee_kind="ai",
    phone_number="+5511987654321",
    authorized_ms=None,
)
NO_FLOW = FollowupFacts(
    flows=(),
    conversation_and_contact_found=True,
    is_group=False,
    is_blocked=False,
    force_human=False,
    silenced=False,
    assignee_kind="ai",
    tags=frozenset(),
    enrolled_by_window=False,
    live_enrollment=False,
    live_return_since=False,
    gap_ms=None,
)
FLOW = Flow("pointer", threshold_ms=DAY_MS, segments=frozenset(), enrolls=True)
RETURNING = replace(NO_FLOW, flows=(FLOW,), gap_ms=2.0 * DAY_MS)
"""A customer who is back after two days, with a flow for who is away for one."""
FINE = Facts(
    db_now_ms=NOW_MS,
    organization_status="active",
    dispatch_mode=None,
    conversation_found=True,
    is_group=False,
    agent_can_execute=True,
    assisted=False,
    latest_message_id="message-3",
    unread_media_created_ms=None,
    contact_found=True,
    known={},
    followup=NO_FLOW,
    eligibility=ELIGIBLE,
)

Change = Callable[[Facts], Facts]

IN_THE_WAY: dict[str, Change] = {
    "org_not_operating": lambda facts: replace(facts, organization_status="suspended"),
    "org_external_dispatch": lambda facts: replace(facts, dispatch_mode="external"),
    "group_or_missing_conversation": lambda facts: replace(facts, is_group=None),
    "no_published_agent": lambda facts: replace(facts, agent_can_execute=False),
    "superseded_by_newer_inbound": lambda facts: replace(facts, latest_message_id="another"),
    "yielded_to_followup": lambda facts: replace(facts, followup=RETURNING),
    "not_eligible:force_human": lambda facts: replace(facts, eligibility=replace(ELIGIBLE, force_human=True)),
    "media_pending": lambda facts: replace(facts, unread_media_created_ms=NOW_MS - 1_000.0),
    "too_old": lambda facts: facts,
    "contact_missing": lambda facts: replace(facts, contact_found=False),
}
"""Every stop in the order in which they are asked, and the facts that make it (`too_old` needs a rule)."""
