"""An event that is too large to be published is told as dead, with an alert, above what its row holds."""

from __future__ import annotations

import json

import pytest

from db.publisher import EventRecord
from schemas.alert_texts import title
from schemas.codec import decode_outcome
from streams.unpublished import outcome_of_too_large

ORGANIZATION = "11111111-1111-4111-8111-111111111111"
EVENT = "00000000-0000-4000-8000-000000000001"
CONTACT = "22222222-2222-4222-8222-22222222222a"
MESSAGE, LINK = "ai_agent.dispatch_requested", "group_link.dispatch_requested"


def record(event_type: str, last: str, **row: object) -> EventRecord:
    value = json.dumps({"id": EVENT, "organization_id": ORGANIZATION, "event_type": event_type, **row})
    return EventRecord(event_type, EVENT, f"{ORGANIZATION}:{last}".encode(), value.encode(), [])


def test_it_is_dead_with_a_reason_and_an_alert() -> None:
    outcome = decode_outcome(outcome_of_too_large(record(MESSAGE, CONTACT, attempts=2), 5))
    assert (outcome.status, outcome.outcome, outcome.stage) == ("dead", "record_too_large", "publish")
    assert (outcome.organization_id, outcome.contact_id, outcome.at_ms) == (ORGANIZATION, CONTACT, 5)
    (event,) = outcome.events
    assert (event.event_id, event.replay, event.seq, event.attempts) == (EVENT, 0, 1, 2)
    assert outcome.alert is not None
    assert (outcome.alert.kind, outcome.alert.ref_id) == ("event_dead", EVENT)
    assert "bytes" in (outcome.last_error or "")


def test_it_counts_above_what_the_row_holds() -> None:
    outcome = decode_outcome(
        outcome_of_too_large(record(MESSAGE, CONTACT, outcome_replay=9, outcome_seq=4), 5)
    )
    assert (outcome.events[0].replay, outcome.events[0].seq) == (9, 5)


@pytest.mark.parametrize(("event_type", "last"), [(MESSAGE, EVENT), (LINK, "+5511988887777"), (LINK, EVENT)])
def test_a_key_without_a_contact_names_none(event_type: str, last: str) -> None:
    assert decode_outcome(outcome_of_too_large(record(event_type, last), 5)).contact_id is None


def test_a_group_link_has_an_alert_of_its_own_family() -> None:
    outcome = decode_outcome(outcome_of_too_large(record(LINK, "+5511988887777"), 5))
    assert outcome.alert is not None
    assert outcome.alert.title == title("group_link_event_dead")
    assert "+55" not in outcome.alert.body
