"""What a dead letter is requeued as, and what is parked or stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import decode_command, encode_job
from schemas.dead import Cause, Header, dead_headers
from schemas.topic_names import CONTROL, DEAD, GROUP_LINKS, JOBS, OUTCOMES, PARKING, SOURCE
from streams.events import Event, read_event
from streams.heads import Head, State
from streams.heads import Origin as Origin_
from streams.job_records import bury
from streams.letters import Letter, Place
from streams.requeueing import Copy, Run, Stays, requeued, source_of
from tests.unit.builders import event, row_bytes, uid
from tests.unit.test_letters import JOB, Origin, letter

RUN = Run(1_790_000_111_111, 1_790_000_111_111, by="ops@clinic", reason="fixed")
SOURCE_PLACE = "p.dispatch.dead/3/17"


def copy_of(died: Letter, replays: int | None = None, *, park: bool = True) -> Copy:
    copy = requeued(died, died.replays if replays is None else replays, SOURCE_PLACE, RUN, park=park)
    assert isinstance(copy, Copy), copy
    return copy


def test_an_event_goes_back_to_its_topic_with_its_bytes_and_the_runs_number() -> None:
    cause = Cause("decide", "contact_missing", "none", event_id=uid("e1"), attempt=5)
    copy = copy_of(letter(row_bytes("e1"), ("traceparent", b"x"), ("cdc_source_ts_ms", b"7"), cause=cause))
    assert (copy.topic, copy.key, copy.value) == (SOURCE, event().key, row_bytes("e1"))
    headers = dict(copy.headers)
    assert headers["traceparent"] == b"x"
    assert headers["cdc_source_ts_ms"] == b"7"
    assert (headers["replay"], headers["replays"]) == (b"1790000111111", b"1")
    assert headers["copied-from"] == SOURCE_PLACE.encode()
    assert not headers.keys() & {"reason", "stage", "event-id", "attempt", "kafka_dlt-exception-message"}
    read = read_event(copy.value, copy.headers, 99, 99, 0)
    assert isinstance(read, Event) and (read.replay, read.attempts, read.time_ms) == (RUN.number, 0, 7)


def test_an_event_without_a_commit_time_keeps_the_time_of_its_first_life() -> None:
    copy = copy_of(letter(row_bytes("e1")))
    assert dict(copy.headers)["cdc_source_ts_ms"] == str(Origin.timestamp).encode()


def test_a_record_that_was_put_right_once_may_be_so_again() -> None:
    copy = copy_of(letter(row_bytes("e1"), ("rekeyed", b"1"), key=b"wrong"))
    assert copy.key == b"wrong" and "rekeyed" not in dict(copy.headers)


@pytest.mark.parametrize("origin", [JOBS, "old.dispatch.jobs", "p.dispatch.delay.10m", CONTROL])
def test_a_job_goes_as_an_order_to_the_owner_of_its_contact(origin: str) -> None:
    died = letter(encode_job(JOB), ("replays", b"1"), origin=origin, cause=Cause("execute", "http_500", "x"))
    copy = copy_of(died)
    order = decode_command(copy.value or b"")
    assert (copy.topic, copy.key) == (CONTROL, event().key)
    assert (order.action, order.job_id, order.job) == ("requeue", JOB.id, encode_job(JOB))
    assert (order.replay, order.replays) == (RUN.number, 2)
    assert (order.issued_by, order.reason, order.organization_id) == ("ops@clinic", "fixed", uid("clinic"))
    assert order.id == decode_command(copy_of(died).value or b"").id, "given twice it is carried out once"


def test_a_job_without_a_key_goes_by_its_contact() -> None:
    died = letter(encode_job(JOB), origin=JOBS, key=None, cause=Cause("execute", "http_500", "x"))
    assert copy_of(died).key == f"{JOB.organization_id}:{JOB.contact_id}".encode()


@pytest.mark.parametrize(
    ("origin", "topic"),
    [
        (SOURCE, SOURCE),
        (f"p.{GROUP_LINKS}", GROUP_LINKS),
        (f"p.{OUTCOMES}", OUTCOMES),
        (CONTROL, CONTROL),
        (JOBS, JOBS),
        ("p.dispatch.delay.1d", JOBS),
    ],
)
def test_br_37_unreadable_bytes_go_back_as_they_are(origin: str, topic: str) -> None:
    copy = copy_of(letter(b"\xff\xfe", origin=origin, key=None))
    assert (copy.topic, copy.key, copy.value) == (topic, None, b"\xff\xfe")


@pytest.mark.parametrize("to", [SOURCE, GROUP_LINKS, OUTCOMES, CONTROL])
def test_what_a_delay_topic_could_not_forward_goes_where_it_was_to_go(to: str) -> None:
    copy = copy_of(letter(b"of tomorrow", ("forward-to", to.encode()), origin="p.dispatch.delay.1m"))
    assert (copy.topic, copy.value) == (to, b"of tomorrow")
    assert not {"forward-to", "unknown-since", "due-at"} & dict(copy.headers).keys()
    event = copy_of(letter(row_bytes("e1"), ("forward-to", b"nowhere"), origin="p.dispatch.delay.1m"))
    assert event.topic == SOURCE, "its bytes say what it is"


@pytest.mark.parametrize("origin", ["", "somebody.elses", "dispatch.dead"])
def test_br_37_what_came_from_elsewhere_never_comes_back_to_the_dead_letters(origin: str) -> None:
    assert isinstance(requeued(letter(b"\xff", origin=origin), 0, "x", RUN, park=True), Stays)


@pytest.mark.parametrize("header", ["erased", "truncated", "value-left-out"])
def test_what_has_lost_its_content_stays(header: str) -> None:
    stays = requeued(letter(row_bytes("e1"), (header, b"1")), 0, "x", RUN, park=True)
    assert isinstance(stays, Stays) and "written anew" in stays.why


def test_br_43_the_fourth_time_a_record_is_parked_as_it_is() -> None:
    died = letter(row_bytes("e1"), ("replays", b"3"), ("replay", b"5"))
    copy = copy_of(died)
    assert (copy.topic, copy.key, copy.value) == (PARKING, died.key, died.value)
    assert [one for one in copy.headers if one[0] != "copied-from"] == list(died.headers)
    by_hand = copy_of(died, park=False)
    assert (by_hand.topic, dict(by_hand.headers)["replays"]) == (SOURCE, b"4")


def test_br_43_a_count_that_only_postgres_knows_parks_too() -> None:
    assert copy_of(letter(row_bytes("e1")), 3).topic == PARKING


def test_br_39_headers_do_not_pile_up_over_ten_requeues() -> None:
    died = letter(row_bytes("e1"))
    counts = set()
    for hop in range(10):
        run = Run(RUN.number + hop, RUN.now_ms)
        copy = requeued(died, died.replays, f"p.dispatch.dead/3/{hop}", run, park=False)
        assert isinstance(copy, Copy)
        headers: list[Header] = dead_headers(Origin(SOURCE, *copy.headers), Cause("collect", "x", "y"), hop)
        died = Letter(Place(DEAD, 3, hop), 9, copy.key, copy.value, headers)
        counts.add(len(headers))
        assert source_of(copy.headers) == f"p.dispatch.dead/3/{hop}"
    assert len(counts) == 1 and died.replays == 10
    assert died.told["first-failed-at"] == "9", "the first death is kept"


@pytest.mark.thorough
@given(
    st.one_of(st.none(), st.binary(max_size=40), st.just(row_bytes("e1")), st.just(encode_job(JOB))),
    st.one_of(st.none(), st.binary(max_size=20)),
    st.lists(st.tuples(st.sampled_from(["replays", "erased", "x", "kafka_dlt-original-topic"]), st.binary())),
    st.integers(0, 9),
    st.booleans(),
)
def test_br_38_every_letter_ends_in_exactly_one_place(
    value: bytes | None, key: bytes | None, headers: list[Header], replays: int, park: bool
) -> None:
    """Copied, parked, or told why it stays: nothing is dropped, and nothing goes back to the dead letters."""
    died = Letter(Place(DEAD, 0, 0), 0, key, value, headers)
    found = requeued(died, replays, "p/0/0", RUN, park=park)
    if isinstance(found, Copy):
        assert found.topic in (SOURCE, GROUP_LINKS, JOBS, OUTCOMES, CONTROL, PARKING)
        assert dict(found.headers)["copied-from"] == b"p/0/0"
        if found.topic != CONTROL:
            assert (found.key, found.value) == (key, value)
    else:
        assert found.why


@pytest.mark.parametrize(("replays", "topic"), [(b"2", DEAD), (b"3", PARKING)])
def test_br_43_a_job_that_dies_after_three_replays_is_buried_in_the_parking_lot(
    replays: bytes, topic: str
) -> None:
    head = Head(
        State.DEAD, job=encode_job(JOB), attempt=5, origin=Origin_(CONTROL, -1, -1, 1, [("replays", replays)])
    )
    bury(JOB.id, head, "http_500", 9)
    (sent,) = head.unsent
    died = Letter(Place(topic, 0, 0), 9, event().key, sent.value, sent.headers or [])
    assert (sent.topic, died.job_id, died.replays) == (topic, JOB.id, int(replays))
