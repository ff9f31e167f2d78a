"""What is left of a letter whose contact is forgotten, and what is said to remain elsewhere."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ops.remains import Kept, remains
from schemas.codec import encode_job
from schemas.dead import Cause, Header
from schemas.topic_names import DEAD
from streams.erasing import erased, is_about, is_erased, needles
from streams.letters import Letter, Place
from tests.unit.builders import row_bytes, uid
from tests.unit.test_letters import JOB, letter

PHONE = "+55 11 91234-5678"
ANA = needles(uid("ana"), PHONE)


def test_a_letter_is_found_by_the_contact_anywhere_in_its_bytes() -> None:
    assert is_about(letter(row_bytes("e1")), ANA)
    assert is_about(letter(row_bytes("e1").upper(), key=None), ANA), "ids in upper case too"
    assert is_about(letter(encode_job(JOB), key=None), ANA)
    assert is_about(letter(b"\xff no record", key=f"{uid('clinic')}:{uid('ana')}".encode()), ANA)
    assert is_about(letter(b'{"phone": "+5511912345678"}', key=None), ANA)
    assert is_about(letter(b"\xff", ("x-contact", uid("ana").encode()), key=None), ANA)
    assert not is_about(letter(row_bytes("e1")), needles(uid("bia"), None))
    assert needles(uid("ana"), "123") == [uid("ana").encode()], "a short number is everybody's"


def test_that_it_died_and_why_stays_and_the_content_goes() -> None:
    cause = Cause("decide", "contact_missing", "no such contact", event_id=uid("e1"), attempt=5)
    name: Header = ("x-name", b"Ana")
    old = letter(row_bytes("e1"), name, ("replays", b"2"), ("event_type", b"x"), cause=cause)
    copy = erased(old, "p.dispatch.dead/3/17")
    new = Letter(Place(DEAD, 0, 0), copy.at_ms, copy.key, copy.value, copy.headers)
    assert is_erased(new) and not new.is_original and not is_about(new, ANA)
    assert (new.reason, new.stage, new.event_id, new.attempt) == ("contact_missing", "decide", uid("e1"), 5)
    assert (new.at_ms, new.replays, new.organization_id) == (old.at_ms, 2, uid("clinic"))
    assert "Ana" not in str(copy.headers)
    assert json.loads(copy.value or b"") == {
        "id": uid("e1"),
        "organization_id": uid("clinic"),
        "event_type": "ai_agent.dispatch_requested",
    }


def test_of_a_job_its_id_and_kind_stay_and_of_unreadable_bytes_nothing() -> None:
    cause = Cause("execute", "http_500", "x", job_id=JOB.id)
    told = json.loads(erased(letter(encode_job(JOB), cause=cause), "x").value or b"")
    assert (told["id"], told["kind"]) == (JOB.id, "inbound_turn") and len(told) == 4
    assert erased(letter(b"\xff Ana"), "x").value is None


@given(
    st.one_of(st.none(), st.binary(), st.just(row_bytes("e1")), st.just(encode_job(JOB))),
    st.one_of(st.none(), st.binary(), st.just(f"{uid('clinic')}:{uid('ana')}".encode())),
    st.lists(st.tuples(st.sampled_from(["x", "reason", "traceparent"]), st.just(b"b"))),
)
def test_what_replaces_a_letter_is_never_about_the_contact(
    value: bytes | None, key: bytes | None, headers: list[Header]
) -> None:
    old = Letter(Place(DEAD, 3, 17), 9, key, value, [*headers, ("contact", uid("ana").encode())])
    copy = erased(old, "p.dispatch.dead/3/17")
    assert not is_about(Letter(Place(DEAD, 0, 0), 9, copy.key, copy.value, copy.headers), ANA)


def test_what_remains_is_told_with_its_last_day() -> None:
    kept = {
        "p.jobs": Kept(7_000, 1_000),
        "p.changelog": Kept(-1, 1_000, compacted=True),
        "p.for_ever": Kept(-1, 1_000),
    }
    left = remains(10_000, kept, ["dead/3/17"], {"job_queue": 2, "event_log": 0})
    assert [(one.where, one.until_ms) for one in left] == [
        ("p.jobs", 18_000),
        ("p.changelog", None),
        ("dead letters", None),
        ("job_queue", None),
    ]
    assert "dead/3/17" in left[2].what
