"""Dead letters carry the original bytes, and never another event's."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams import undertaker
from streams.contact import Frozen, Window, WindowEvent
from streams.undertaker import OriginalRecords, OriginalsUnreadable
from tests import raw_names
from tests.unit.builders import event, row_bytes

KEY = event().key


def window(*members: tuple[str, int]) -> Window:
    """A window that died, of these events at these offsets."""
    events = [
        WindowEvent(one.event_id, one.message_id, one.session_id, offset, one.time_ms)
        for one, offset in ((event(name), offset) for name, offset in members)
    ]
    frozen = Frozen(outcome="contact_missing", status="dead", decided_ms=5, last_error="no such contact")
    return Window("c1", events, 0, 0, 100, failures=5, state="frozen", frozen=frozen)


@pytest.fixture
def topic(kafka: str, prefix: str) -> str:
    """A source topic with three events, e0 to e2."""
    name = f"{prefix}source"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(3):
        producer.produce(name, key=KEY, value=row_bytes(f"e{number}"), headers={"traceparent": "00-x"})
    producer.flush(10)
    return name


async def test_letters_have_the_bytes_and_headers_of_the_originals(kafka: str, topic: str) -> None:
    letters = await OriginalRecords(kafka, topic).letters(KEY, 0, window(("e0", 0), ("e2", 2)))
    assert [(key, value) for key, value, _, _ in letters] == [(KEY, row_bytes("e0")), (KEY, row_bytes("e2"))]
    headers = dict(letters[1][3] or [])
    assert headers["traceparent"] == b"00-x"
    assert headers["kafka_dlt-original-offset"] == b"2"
    assert (headers["reason"], headers["attempt"]) == (b"contact_missing", b"5")
    assert "reconstructed" not in headers


async def test_what_retention_took_is_rebuilt_and_says_so(kafka: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    where = TopicPartition(topic, 0, 2)
    admin.delete_records([where])[where].result(10)
    (gone, kept) = await OriginalRecords(kafka, topic).letters(KEY, 0, window(("e0", 0), ("e2", 2)))
    assert dict(gone[3] or [])["reconstructed"] == b"1"
    assert json.loads(gone[1] or b"")["id"] == event("e0").event_id
    assert kept[1] == row_bytes("e2")


async def test_another_events_record_at_that_offset_is_not_taken(kafka: str, topic: str) -> None:
    (letter,) = await OriginalRecords(kafka, topic).letters(KEY, 0, window(("of an older topic", 1)))
    assert dict(letter[3] or [])["reconstructed"] == b"1"
    assert json.loads(letter[1] or b"")["id"] == event("of an older topic").event_id


async def test_an_original_whose_headers_can_not_be_read_keeps_its_bytes(kafka: str, topic: str) -> None:
    await raw_names.produce(kafka, topic, KEY, row_bytes("e3"), b"\xff\xfe", partition=0)
    (letter,) = await OriginalRecords(kafka, topic).letters(KEY, 0, window(("e3", 3)))
    assert letter[:2] == (KEY, row_bytes("e3"))
    assert dict(letter[3] or [])["reason"] == b"contact_missing"


async def test_beyond_the_end_is_rebuilt(kafka: str, topic: str) -> None:
    (letter,) = await OriginalRecords(kafka, topic).letters(KEY, 0, window(("e9", 9)))
    assert dict(letter[3] or [])["reconstructed"] == b"1"


async def test_nothing_is_rebuilt_while_kafka_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undertaker, "FETCH_S", 1.0)
    with pytest.raises(OriginalsUnreadable, match="tried again"):
        await OriginalRecords("127.0.0.1:1", "nowhere").letters(KEY, 0, window(("e0", 0)))
