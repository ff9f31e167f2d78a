"""Where records go, and what is told of those that can't go on (spec/jobs.md, "Delay topics")."""

from __future__ import annotations

import msgspec
import pytest

from schemas.alert_texts import PLATFORM, job_dead
from schemas.codec import decode_outcome, encode_job
from schemas.dead import Header
from schemas.records import EventRef, Job
from schemas.topic_names import DEAD, JOBS, OUTCOMES, PARKING
from streams.delays.plan import Trouble, sends_of
from streams.delays.queues import Held
from streams.delays.records import Record, Send
from streams.due import read_due
from tests.unit.builders import uid

T0 = 1_760_000_000_000
JOB = Job(
    id=uid("job"),
    organization_id=uid("org"),
    contact_id=uid("ana"),
    kind="inbound_turn",
    source_event_id=uid("event"),
    replay=2,
    seq=7,
    copy=1,
    attempt=3,
    created_at_ms=T0 - 60_000,
    run_after_ms=T0,
    payload="{}",
    events=(EventRef(event_id=uid("event")),),
)


def held(*headers: Header, value: bytes | None = b"value", readable: bool = True) -> Held:
    record = Record("x.dispatch.delay.1s", 3, 41, T0 - 1_000, b"key", value, headers, readable)
    return Held(record, read_due(headers), 0.0, record.size)


def due_at(ms: int) -> Header:
    return "due-at", b"%d" % ms


def test_a_hop_changes_nothing_but_the_topic() -> None:
    one = held(("a", None), due_at(T0 + 10_000))
    assert sends_of(one, T0 + 0.9) == [Send("dispatch.delay.10s", 3, b"key", b"value", one.record.headers)]


def test_a_fraction_of_a_millisecond_does_not_make_a_record_early() -> None:
    assert sends_of(held(due_at(T0 + 1)), T0 + 0.999)[0].topic == "dispatch.delay.100ms"
    assert sends_of(held(due_at(T0 + 1)), T0 + 1.0)[0].topic == JOBS


def test_the_death_of_a_job_is_told_with_its_alert_and_above_its_last_number() -> None:
    letter, told = sends_of(held(("x", b"y"), value=encode_job(JOB)), T0 + 0.5)
    assert (letter.topic, letter.partition, letter.key, letter.value) == (DEAD, 3, b"key", encode_job(JOB))
    headers = dict(letter.headers)
    assert headers["x"] == b"y"
    assert headers["stage"] == b"delays"
    assert headers["job-id"] == JOB.id.encode()
    assert headers["attempt"] == b"3"
    assert headers["kafka_dlt-original-topic"] == b"x.dispatch.delay.1s"
    assert headers["kafka_dlt-original-offset"] == b"41"
    assert (told.topic, told.partition, told.key) == (OUTCOMES, 3, b"key")
    outcome = decode_outcome(told.value or b"")
    assert outcome.job == msgspec.structs.replace(JOB, seq=8)
    assert (outcome.job_status, outcome.job_id) == ("dead", JOB.id)
    assert (outcome.organization_id, outcome.contact_id) == (JOB.organization_id, JOB.contact_id)
    assert (outcome.outcome, outcome.stage, outcome.status) == ("dead:due_at_unreadable", "delays", "done")
    assert outcome.alert == job_dead(JOB, outcome.last_error)


def test_what_names_no_job_is_told_to_the_platform() -> None:
    _, told = sends_of(held(value=b"{}"), T0)
    outcome = decode_outcome(told.value or b"")
    assert (outcome.organization_id, outcome.job, outcome.job_status) == (PLATFORM, None, None)
    assert outcome.alert is not None and "offset 41" in outcome.alert.body


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (held(), "no header"),
        (held(("due-at", b"soon")), "no decimal number"),
        (held(readable=False), "no text"),
    ],
)
def test_the_letter_says_what_is_wrong(one: Held, why: str) -> None:
    letter, _ = sends_of(one, T0)
    assert why.encode() in (dict(letter.headers)["kafka_dlt-exception-message"] or b"")


def test_a_record_that_was_replayed_too_often_is_parked() -> None:
    assert sends_of(held(("replays", b"3")), T0)[0].topic == PARKING


def test_each_refusal_goes_one_step_further() -> None:
    one = held(due_at(T0), value=encode_job(JOB))

    def shape(trouble: Trouble) -> list[tuple[str, bool]]:
        return [
            (
                send.topic,
                decode_outcome(send.value or b"").job is not None
                if send.topic == OUTCOMES
                else send.value is not None,
            )
            for send in sends_of(one, T0, trouble)
        ]

    assert shape(Trouble.NONE) == shape(Trouble.SUSPECT) == [(JOBS, True)]
    assert shape(Trouble.UNWRITABLE) == [(DEAD, True), (OUTCOMES, True)]
    assert shape(Trouble.UNTELLABLE) == [(DEAD, True), (OUTCOMES, False)]
    assert shape(Trouble.UNBURIABLE) == [(DEAD, False), (OUTCOMES, False)]


def test_the_alert_speaks_the_installations_language() -> None:
    _, told = sends_of(held(value=encode_job(JOB)), T0, language="en")
    alert = decode_outcome(told.value or b"").alert
    assert alert is not None and alert.title == job_dead(JOB, None, "en").title


def test_a_job_whose_numbers_leave_no_room_is_told_as_a_record_that_names_none() -> None:
    job = encode_job(msgspec.structs.replace(JOB, seq=2**63 - 1))
    letter, told = sends_of(held(value=job), 1_000.0)
    assert letter.value == job
    assert told.value is not None and decode_outcome(told.value).job is None
