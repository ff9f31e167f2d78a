"""Each stop by itself, and who wins when several would stop: named by the behaviours they prove."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from streams.decide import Decision, Emptied, Enqueue, Fail, LookAgain, Stop, WaitForMedia, decide
from streams.question import AskedEvent, Facts, Rules, Unreadable
from tests.unit.asking import (
    ELIGIBLE,
    EVENTS,
    FINE,
    IN_THE_WAY,
    NOW_MS,
    QUESTION,
    RETURNING,
    RULES,
)

OLD_IS = Rules(event_max_age_s=2.0)


def named(decision: Decision) -> str:
    match decision:
        case Stop(reason=reason):
            return reason
        case WaitForMedia():
            return "media_pending"
        case Fail(error_class=error_class):
            return error_class
        case Enqueue() | Emptied() | LookAgain():
            return type(decision).__name__


def reason(facts: Facts) -> str:
    return named(decide(QUESTION, facts, RULES))


def test_nothing_in_the_way_makes_one_job() -> None:
    assert decide(QUESTION, FINE, RULES) == Enqueue("event-3")


@pytest.mark.parametrize(("earlier", "later"), itertools.combinations(IN_THE_WAY, 2))
def test_b001_the_first_stop_wins(earlier: str, later: str) -> None:
    rules = OLD_IS if "too_old" in (earlier, later) else RULES
    both = IN_THE_WAY[earlier](IN_THE_WAY[later](FINE))
    assert named(decide(QUESTION, both, rules)) == earlier
    alone = OLD_IS if later == "too_old" else RULES
    assert named(decide(QUESTION, IN_THE_WAY[later](FINE), alone)) == later


@pytest.mark.parametrize(
    "status", ["suspended", "redacted", "archived", "frozen", "ACTIVE", "active ", "", None]
)
def test_b010_to_b016_only_the_exact_status_active_operates(status: str | None) -> None:
    assert reason(replace(FINE, organization_status=status)) == "org_not_operating"


def test_b017_b018_b019_external_dispatch() -> None:
    assert reason(replace(FINE, dispatch_mode="external")) == "org_external_dispatch"
    for mode in ("native", "External", "", None):
        assert reason(replace(FINE, dispatch_mode=mode)) == "Enqueue"
    assert reason(replace(FINE, dispatch_mode="external", organization_status="x")) == "org_not_operating"


def test_b020_an_assisted_agent_does_not_lift_the_organization() -> None:
    assert reason(replace(FINE, organization_status="suspended", assisted=True)) == "org_not_operating"


@pytest.mark.parametrize("is_group", [True, None])
def test_b021_b022_anything_but_false_is_a_group(is_group: bool | None) -> None:
    assert reason(replace(FINE, is_group=is_group)) == "group_or_missing_conversation"


def test_b023_an_unknown_conversation() -> None:
    assert reason(replace(FINE, conversation_found=False, is_group=None)) == "group_or_missing_conversation"


def test_b025_b026_nobody_executes() -> None:
    assert reason(replace(FINE, agent_can_execute=False)) == "no_published_agent"


# -- stop 5


def test_b042_a_newer_message_supersedes_the_whole_window() -> None:
    assert reason(replace(FINE, latest_message_id="message-4")) == "superseded_by_newer_inbound"


@pytest.mark.parametrize("latest", ["message-1", "message-2", "message-3"])
def test_b046_the_job_answers_the_latest_message_wherever_it_stands_in_the_log(latest: str) -> None:
    decision = decide(QUESTION, replace(FINE, latest_message_id=latest), RULES)
    assert decision == Enqueue(latest.replace("message", "event"))


def test_b047_no_inbound_rows_goes_on_and_answers_the_last_of_the_log() -> None:
    assert decide(QUESTION, replace(FINE, latest_message_id=None), RULES) == Enqueue("event-3")


@pytest.mark.parametrize(
    ("since_ms", "superseded"), [(None, True), (29_999, True), (30_000, True), (30_001, False)]
)
def test_nobody_starves_a_conversation_superseded_for_longer_than_max_wait(
    since_ms: int | None, superseded: bool
) -> None:
    question = replace(QUESTION, superseded_since_ms=None if since_ms is None else NOW_MS - since_ms)
    decision = decide(question, replace(FINE, latest_message_id="message-4"), RULES)
    if superseded:
        assert decision == Stop("superseded_by_newer_inbound")
    else:
        assert decision == Enqueue("event-3", warnings=("starving_conversation",))


# -- stops 6 and 7


def test_b154_the_yield_comes_before_a_closed_gate() -> None:
    closed = replace(ELIGIBLE, channel_metadata={"disabled": True})
    assert reason(replace(FINE, followup=RETURNING, eligibility=closed)) == "yielded_to_followup"


def test_b155_an_unreadable_follow_up_goes_on_with_a_warning() -> None:
    decision = decide(QUESTION, replace(FINE, followup=Unreadable("sqlstate_22P02")), RULES)
    assert decision == Enqueue("event-3", warnings=("followup_unreadable",))


def test_b069_an_unreadable_gate_goes_on_with_a_warning() -> None:
    decision = decide(QUESTION, replace(FINE, eligibility=Unreadable("sqlstate_22012")), RULES)
    assert decision == Enqueue("event-3", warnings=("eligibility_unreadable",))


def test_b067_no_row_no_verdict() -> None:
    assert decide(QUESTION, replace(FINE, eligibility=None), RULES) == Enqueue("event-3")


def test_b070_an_assisted_agent_lifts_the_gate() -> None:
    vetoed = replace(ELIGIBLE, channel_metadata={"disabled": True}, force_human=True)
    assert reason(replace(FINE, eligibility=vetoed)) == "not_eligible:channel_disabled"
    assert decide(QUESTION, replace(FINE, eligibility=vetoed, assisted=True), RULES) == Enqueue("event-3")


# -- stop 8


def test_b077_beyond_the_ceiling_it_goes_on_with_a_warning() -> None:
    decision = decide(QUESTION, replace(FINE, unread_media_created_ms=NOW_MS - 120_000.0), RULES)
    assert decision == Enqueue("event-3", warnings=("media_wait_ceiling_passed",))


def test_b072_it_waits_four_seconds() -> None:
    decision = decide(QUESTION, replace(FINE, unread_media_created_ms=NOW_MS - 90_000.0), RULES)
    assert decision == WaitForMedia(4_000)


# -- stop 9 and the contact


@pytest.mark.parametrize(("max_age_s", "stops"), [(None, False), (4.999, True), (5.0, False), (6.0, False)])
def test_the_newest_event_may_be_too_old(max_age_s: float | None, stops: bool) -> None:
    decision = decide(QUESTION, FINE, Rules(event_max_age_s=max_age_s))
    assert named(decision) == ("too_old" if stops else "Enqueue")


def test_b115_a_missing_contact_is_a_failure_that_may_pass() -> None:
    decision = decide(QUESTION, replace(FINE, contact_found=False), RULES)
    assert isinstance(decision, Fail) and decision.error_class == "contact_missing"


# -- stop 0


def test_b110_an_event_with_an_outcome_leaves_and_keeps_its_job() -> None:
    decision = decide(QUESTION, replace(FINE, known={"event-1": "job-7", "event-2": None}), RULES)
    assert decision == Enqueue("event-3", deduplicated=(("event-1", "job-7"), ("event-2", None)))


def test_an_event_whose_id_is_another_contacts_leaves_and_is_told() -> None:
    """Whatever is known of the id is not about this message, and `--again` doesn't make it so."""
    facts = replace(FINE, known={"event-1": "job-7"}, of_others={"event-2": "job-8", "event-1": "job-7"})
    gone = (("event-1", "job-7"), ("event-2", "job-8"))
    for question in (QUESTION, replace(QUESTION, again=True)):
        assert decide(question, facts, RULES) == Enqueue(
            "event-3", deduplicated=gone, of_others=("event-1", "event-2")
        )


def test_without_the_newest_the_rest_is_superseded_by_it() -> None:
    decision = decide(QUESTION, replace(FINE, known={"event-3": "job-7"}), RULES)
    assert decision == Stop("superseded_by_newer_inbound", deduplicated=(("event-3", "job-7"),))


def test_an_emptied_window_ends_whatever_else_is_the_case() -> None:
    known = {event.event_id: "job-7" for event in EVENTS}
    for change in IN_THE_WAY.values():
        decision = decide(QUESTION, replace(change(FINE), known=known), OLD_IS)
        assert decision == Emptied(deduplicated=tuple(known.items()))


def test_what_leaves_is_told_with_every_decision() -> None:
    known = {"event-1": "job-7"}
    for name, change in IN_THE_WAY.items():
        decision = decide(
            QUESTION, replace(change(FINE), known=known), OLD_IS if name == "too_old" else RULES
        )
        assert decision.deduplicated == (("event-1", "job-7"),)
        assert named(decision) == name


def test_events_of_others_are_not_looked_at() -> None:
    assert decide(QUESTION, replace(FINE, known={"event-9": "job-7"}), RULES) == Enqueue("event-3")


def test_again_skips_stops_0_and_5() -> None:
    facts = replace(FINE, known={"event-3": "job-7"}, latest_message_id="message-4")
    assert decide(replace(QUESTION, again=True), facts, RULES) == Enqueue("event-3")
    for name in ("org_not_operating", "no_published_agent", "yielded_to_followup", "contact_missing"):
        assert named(decide(replace(QUESTION, again=True), IN_THE_WAY[name](facts), RULES)) == name


def test_of_two_events_about_one_message_the_later_is_answered() -> None:
    events = (*EVENTS, AskedEvent("event-4", "message-3", NOW_MS))
    assert decide(replace(QUESTION, events=events), FINE, RULES) == Enqueue("event-4")
