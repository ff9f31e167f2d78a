"""What a worker has just sent is known to it by its bytes, once, and within bounds."""

from __future__ import annotations

from msgspec import structs

from schemas.codec import decode_job, encode_job
from schemas.records import EventRef, Job
from streams.just_made import LARGEST, MOST, JustMade


def job() -> Job:
    return Job(
        id="j", organization_id="o", contact_id="c", kind="inbound_turn", source_event_id="e", seq=2,
        created_at_ms=1, run_after_ms=1, payload="{}", events=(EventRef("e"), EventRef("f", 3)),
    )  # fmt: skip


def test_a_job_is_known_by_its_very_bytes_and_given_once() -> None:
    made, one = JustMade(), job()
    value = encode_job(one)
    made.note(value, one)
    assert made.take(encode_job(structs.replace(one, seq=one.seq + 1))) is None
    taken = made.take(bytes(bytearray(value)))
    assert taken is one and taken == decode_job(value)
    assert made.take(value) is None


def test_what_never_comes_back_does_not_fill_the_memory() -> None:
    made, one = JustMade(), job()
    values = [f"{n}".encode() for n in range(MOST + 5)]
    for value in values:
        made.note(value, one)
    assert [made.take(value) for value in values[:5]] == [None] * 5
    assert all(made.take(value) is one for value in values[5:])
    large = bytes(LARGEST + 1)
    made.note(large, one)
    assert made.take(large) is None
