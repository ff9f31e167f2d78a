"""What is published again, as what, and which topics are refused with a word on what to do instead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import topic_names
from schemas.codec import encode_outcome
from schemas.dead import Header
from schemas.records import EventOutcome, Outcome
from schemas.topic_names import CONTROL, DEAD, DELAY, GROUP_LINKS, JOBS, OUTCOMES, PARKING, SOURCE
from streams.events import Event, read_event
from streams.replaying import REPLAYABLE, Source, event_id_of, is_done, refusal, replayed
from streams.requeueing import Copy
from streams.topics import TOPICS
from tests.unit.builders import event, row, row_bytes, uid

RUN = 1_790_000_111_111


def source(
    value: bytes | None, *headers: Header, topic: str = SOURCE, key: bytes | None = event().key
) -> Source:
    return Source(topic, f"p.{topic}/3/17", key, value, headers, 1_790_000_000_000)


def copied(one: Source, *, again: bool = False) -> Copy:
    copy = replayed(one, RUN, again=again)
    assert isinstance(copy, Copy), copy
    return copy


def test_an_event_comes_again_with_its_bytes_its_time_and_the_runs_number() -> None:
    copy = copied(source(row_bytes("e1"), ("traceparent", b"x"), ("replay", b"5"), ("again", b"1")))
    assert (copy.topic, copy.key, copy.value) == (SOURCE, event().key, row_bytes("e1"))
    read = read_event(copy.value, copy.headers, 99, 10**14, 0)
    assert isinstance(read, Event)
    assert (read.replay, read.again, read.time_ms) == (RUN, False, 1_790_000_000_000)
    told = dict(copy.headers)
    assert told["traceparent"] == b"x" and told["copied-from"] == f"p.{SOURCE}/3/17".encode()


def test_again_says_so() -> None:
    read = read_event(row_bytes("e1"), copied(source(row_bytes("e1")), again=True).headers, 99, 99, 0)
    assert isinstance(read, Event) and read.again


def test_what_was_under_a_wrong_key_comes_again_under_its_own() -> None:
    copy = copied(source(row_bytes("e1"), ("rekeyed", b"1"), key=b"wrong"))
    assert copy.key == event().key and "rekeyed" not in dict(copy.headers)


def test_outcomes_and_group_links_come_as_they_are() -> None:
    told = Outcome(
        organization_id=uid("clinic"), at_ms=1, stage="decide", status="done",
        events=(EventOutcome(event_id=uid("e1"), seq=1),),
    )  # fmt: skip
    outcome = copied(source(encode_outcome(told), topic=OUTCOMES), again=True)
    assert (outcome.topic, outcome.value) == (OUTCOMES, encode_outcome(told))
    assert "again" not in dict(outcome.headers)
    link = json.dumps(row("e1", event_type=GROUP_LINKS, payload='{"phone": "+5511912345678"}')).encode()
    one = source(link, topic=GROUP_LINKS, key=b"org:+5511912345678")
    assert (copied(one).topic, copied(one).key) == (GROUP_LINKS, b"org:+5511912345678")
    assert event_id_of(one) == uid("e1")
    assert is_done(one, {uid("e1")}) and not is_done(one, set())
    assert not is_done(source(row_bytes("e1")), {uid("e1")}), (
        "for these the worker's stop 0 is the one to say"
    )


@pytest.mark.parametrize("topic", REPLAYABLE)
@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[1]", b"{}"])
def test_what_is_no_record_of_ours_is_left_out(topic: str, value: bytes | None) -> None:
    assert replayed(source(value, topic=topic), RUN, again=False) == "unreadable"


@given(st.sampled_from(REPLAYABLE), st.one_of(st.none(), st.binary()), st.booleans())
def test_no_bytes_raise(topic: str, value: bytes | None, again: bool) -> None:
    replayed(source(value, topic=topic), RUN, again=again)
    event_id_of(source(value, topic=topic))


@pytest.mark.parametrize(
    ("topic", "instead"),
    [
        (JOBS, "dlq requeue"),
        (CONTROL, "rajada jobs"),
        (DEAD, "dlq requeue"),
        (PARKING, "dlq requeue"),
        (f"{DELAY}.10m", "run-now"),
        (topic_names.CONTACTS_CHANGELOG, "recovery"),
        (topic_names.RECONCILIATION, "schedule"),
        ("somebody.elses", "no topic of Rajada"),
    ],
)
def test_a_topic_that_makes_no_sense_is_refused_with_what_to_do_instead(topic: str, instead: str) -> None:
    assert instead in (refusal(topic) or "")


def test_every_topic_of_ours_is_replayed_or_refused_for_a_reason_of_its_own() -> None:
    for topic in TOPICS:
        why = refusal(topic.name)
        assert (why is None) == (topic.name in REPLAYABLE)
        assert why != refusal("somebody.elses"), topic.name
