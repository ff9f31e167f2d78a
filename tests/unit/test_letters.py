"""What a dead letter tells of itself, whatever its bytes are."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import encode_command, encode_event, encode_job, encode_outcome
from schemas.dead import Cause, Header, dead_headers
from schemas.records import Command, EventOutcome, EventRef, Job, Outcome
from schemas.topic_names import DEAD, PARKING
from streams.letters import UNREADABLE, Letter, Place, place_of, read_content
from tests.unit.builders import event, row, row_bytes, uid

JOB = Job(
    id=uid("job"),
    organization_id=uid("clinic"),
    contact_id=uid("ana"),
    kind="inbound_turn",
    source_event_id=uid("e1"),
    seq=2,
    created_at_ms=1,
    run_after_ms=1,
    payload="{}",
    events=(EventRef(uid("e1")),),
)


class Origin:
    """A record of a topic, about to die."""

    partition, offset, timestamp = 3, 42, 1_790_000_000_000

    def __init__(self, topic: str, *headers: Header) -> None:
        self.topic, self.headers = topic, headers


def letter(
    value: bytes | None,
    *headers: Header,
    origin: str = "ai_agent.dispatch_requested",
    key: bytes | None = event().key,
    cause: Cause | None = None,
) -> Letter:
    """What lies in the dead letters when a record dies."""
    cause = cause or Cause("collect", "not_json", "broken")
    return Letter(
        Place(DEAD, 3, 17), 1_790_000_000_500, key, value, dead_headers(Origin(origin, *headers), cause, 9)
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("dead/3/17", Place(DEAD, 3, 17)),
        ("parking/0/5", Place(PARKING, 0, 5)),
        ("dispatch.dead/3/17", Place(DEAD, 3, 17)),
        (" dead/3/17 ", Place(DEAD, 3, 17)),
        ("dead/3", None),
        ("dead/-1/3", None),
        ("dead/³/1", None),
        ("jobs/3/17", None),
        ("dead/3/17/4", None),
        (uid("e1"), None),
        ("dead/3/" + "9" * 5_000, None),
    ],
)
def test_a_place_is_read_as_it_is_shown(text: str, place: Place | None) -> None:
    assert place_of(text) == place
    if place is not None:
        assert place_of(str(place)) == place


def test_a_letter_tells_where_it_came_from_and_what_it_is_about() -> None:
    cause = Cause("decide", "contact_missing", "no such contact", event_id=uid("e1"), attempt=5)
    found = letter(row_bytes("e1"), ("traceparent", b"x"), ("replays", b"2"), ("replay", b"77"), cause=cause)
    assert (found.reason, found.stage, found.message) == ("contact_missing", "decide", "no such contact")
    assert (found.attempt, found.replays, found.replay) == (5, 2, 77)
    assert (found.origin, found.origin_ms) == ("ai_agent.dispatch_requested", 1_790_000_000_000)
    assert (found.event_id, found.job_id, found.about) == (uid("e1"), None, uid("e1"))
    assert (found.kind, found.organization_id) == ("ai_agent.dispatch_requested", uid("clinic"))
    assert isinstance(found.content.record, Mapping) and found.content.record["attempts"] == 0


def test_each_of_our_records_is_known_by_its_bytes() -> None:
    outcome = Outcome(
        organization_id=uid("clinic"),
        at_ms=1,
        stage="decide",
        events=(EventOutcome(event_id=uid("e1"), seq=1),),
        status="done",
    )
    command = Command(id=uid("order"), at_ms=1, action="pause")
    assert letter(encode_job(JOB)).kind == "inbound_turn"
    assert letter(encode_job(JOB)).about == uid("job")
    assert read_content(encode_outcome(outcome)).record == outcome
    assert read_content(encode_command(command)).record == command
    assert read_content(encode_event(row("e1"))).kind == "ai_agent.dispatch_requested"
    assert read_content(json.dumps(row("e1")).encode()).organization_id == uid("clinic")


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"\xff\xfe", b"[1]", b"{}", b"[" * 100_000, b"1" * 10_000),
        *(encode_job(JOB)[:-3], b"\xc3\x01" + b"\0" * 8, b'{"id": "x", "event_type": "y"}'),
    ],
)
def test_bytes_that_are_no_record_of_ours_are_unreadable(value: bytes | None) -> None:
    found = letter(value, key=b"junk")
    assert (found.kind, found.organization_id, found.about) == (UNREADABLE, None, None)


@pytest.mark.parametrize("name", ["erased", "truncated", "value-left-out"])
def test_a_letter_that_is_not_whole_says_so(name: str) -> None:
    assert Letter(Place(DEAD, 0, 0), 0, b"k", b"v", []).is_original
    assert not Letter(Place(DEAD, 0, 0), 0, b"k", None, [(name, b"1")]).is_original


def test_the_key_says_whose_unreadable_bytes_are() -> None:
    assert letter(b"\xff").organization_id == uid("clinic")
    assert letter(b"\xff", key=None).organization_id is None


@pytest.mark.thorough
@given(
    st.one_of(st.none(), st.binary(), st.text().map(str.encode)),
    st.one_of(st.none(), st.binary()),
    st.lists(st.tuples(st.text(), st.one_of(st.none(), st.binary()))),
)
def test_no_bytes_and_no_headers_raise(value: bytes | None, key: bytes | None, headers: list[Header]) -> None:
    found = Letter(Place(DEAD, 0, 0), 0, key, value, headers)
    assert found.kind and found.reason and found.stage
    assert found.replays >= 0 and found.replay >= 0
    str(found.about), str(found.organization_id), str(found.attempt), str(found.origin_ms)
