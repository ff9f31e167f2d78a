"""Group-link events become jobs that wait until they are available; what is wrong is told, never silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import decode_job, decode_outcome
from schemas.topic_names import DEAD, GROUP_LINKS, JOBS, OUTCOMES
from streams.events import InvalidPayload, Unreadable
from streams.group_link_intake import GroupLinkIntake
from streams.group_links import GroupLinkEvent, read_group_link
from streams.ports import Item
from tests.unit.job_worlds import ORGANIZATION, START_MS, Record, uuid

PHONE = "+5511988887777"
KEY = f"{ORGANIZATION}:{PHONE}".encode()
PARTITIONS = 8
PLACE = int(murmur2(KEY)) % 2**31 % PARTITIONS

PAYLOAD: dict[str, object] = {
    "job_id": uuid(1),
    "enrolment_id": "enr-1",
    "flow": "personal",
    "phone": PHONE,
    "group_link": "https://chat.whatsapp.com/x",
    "template_name": "welcome_group",
    "template_language": "pt_BR",
    "student_name": "Ana",
    "max_attempts": 5,
    "available_at_ms": START_MS + 90_000,
}


def row(payload: object = None, **fields: object) -> bytes:
    given = {
        "id": uuid(2),
        "organization_id": ORGANIZATION,
        "event_type": GROUP_LINKS,
        "payload": json.dumps(PAYLOAD if payload is None else payload),
        "attempts": 0,
    }
    return json.dumps({**given, **fields}).encode()


class Sent:
    """What the intake sent."""

    def __init__(self) -> None:
        self.items: dict[str, list[Item]] = {}

    def send(self, topic: str, items: Iterable[Item]) -> Any:
        self.items.setdefault(topic, []).extend(items)


def taken(*records: Record, place: int = PLACE) -> tuple[GroupLinkIntake, Sent]:
    sent = Sent()
    intake = GroupLinkIntake(sent, partitions=PARTITIONS, wall_ms=lambda: START_MS)
    asyncio.run(intake.events(records, place))
    return intake, sent


def test_an_event_becomes_a_job_that_waits_in_the_delay_topics_until_it_is_available() -> None:
    _, sent = taken(Record(KEY, row(), 0, START_MS))
    ((key, value, partition, headers),) = sent.items["dispatch.delay.1m"]
    job = decode_job(value or b"")
    assert (key, partition) == (KEY, PLACE)
    assert dict(headers or ())["due-at"] == str(START_MS + 90_000).encode()
    assert (job.id, job.kind, job.run_after_ms) == (uuid(1), "group_link_template", START_MS + 90_000)
    (item,) = sent.items[OUTCOMES]
    told = decode_outcome(item[1] or b"")
    assert (told.status, told.outcome, told.job_id, told.job_status) == ("done", "job", uuid(1), "pending")


def test_what_is_available_goes_to_the_jobs_at_once() -> None:
    _, sent = taken(Record(KEY, row({**PAYLOAD, "available_at_ms": 0}), 0, START_MS))
    assert JOBS in sent.items


@pytest.mark.parametrize(("asked", "given_attempts"), [(0, 1), (-3, 1), (1, 1), (7, 7), (10_000, 100)])
def test_max_attempts_below_1_count_as_1(asked: int, given_attempts: int) -> None:
    found = read_group_link(row({**PAYLOAD, "max_attempts": asked}), (), START_MS)
    assert isinstance(found, GroupLinkEvent) and found.job.max_attempts == given_attempts


@pytest.mark.parametrize(
    "payload",
    [
        {**PAYLOAD, "job_id": "not an id"},
        {**PAYLOAD, "job_id": None},
        {key: value for key, value in PAYLOAD.items() if key != "job_id"},
        {**PAYLOAD, "phone": "11 98888-7777"},
        {**PAYLOAD, "max_attempts": "many"},
        [],
        "text",
    ],
)
def test_a_job_without_a_valid_id_or_phone_is_discarded_counted_and_told(payload: object) -> None:
    intake, sent = taken(Record(KEY, row(payload), 0, START_MS))
    assert intake.counts.invalid == 1
    (item,) = sent.items[OUTCOMES]
    told = decode_outcome(item[1] or b"")
    assert told.outcome == "invalid_payload" and told.events[0].event_id == uuid(2)
    assert PHONE not in (told.facts or ""), "no content in what is told"


def test_a_hand_made_event_is_put_right_once_and_then_dead() -> None:
    intake, sent = taken(Record(b"wrong", row(), 0, START_MS))
    ((key, _, partition, headers),) = sent.items[GROUP_LINKS]
    assert (key, partition, dict(headers or ())["rekeyed"]) == (KEY, PLACE, b"1")
    intake, sent = taken(Record(b"wrong", row(), 0, START_MS, headers=[("rekeyed", b"1")]))
    assert intake.counts.dead == 1 and dict(sent.items[DEAD][0][3] or ())["reason"] == b"key_mismatch"


def test_the_same_event_twice_is_the_same_job_twice_for_the_head_to_take_once() -> None:
    _, sent = taken(*[Record(KEY, row(), n, START_MS) for n in range(2)])
    first, second = sent.items["dispatch.delay.1m"]
    assert first[1] == second[1]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*PAYLOAD, "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.thorough
@given(st.binary(max_size=80) | json_values)
def test_nothing_raises_whatever_the_payload_is(payload: object) -> None:
    value = payload if isinstance(payload, bytes) else row(payload)
    found = read_group_link(value, (), START_MS)
    assert isinstance(found, (GroupLinkEvent, InvalidPayload, Unreadable))
