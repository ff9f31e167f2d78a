"""On each topic: what a newer version wrote waits a minute for its next try, and is dead after an hour.

The hour itself passes in `tests/unit/test_upgrades.py` and `test_execute_records.py`, on clocks of their own;
here all processes and Kafka do what they count on (docs/schemas.md).
"""

from __future__ import annotations

import time

from confluent_kafka import Message

from schemas.codec import MAGIC
from schemas.delayed import EVERY_MS, FOR_MS, FORWARDED, WAITS_IN
from schemas.topic_names import DEAD, DELAY, JOBS
from tests.e2e.conftest import MakeProcesses
from tests.e2e.topic_reading import murmur2_producer, read_all, records_of
from tests.e2e.waiting import until

SHORTEST = f"{DELAY}.100ms"
KEY = b"00000000-0000-4000-8000-000000000001:00000000-0000-4000-8000-000000000002"


def test_on_each_topic_it_waits_for_its_next_try_and_is_dead_with_its_bytes_after_an_hour(
    processes: MakeProcesses, kafka: str, prefix: str
) -> None:
    processes().start("worker", "sink", "delays")
    producer, now_ms = murmur2_producer(kafka), time.time_ns() // 1_000_000
    fresh = {topic: MAGIC + b"tomorrow" + topic.encode() for topic in FORWARDED}
    old = {topic: value + b", an hour ago" for topic, value in fresh.items()}
    for topic in FORWARDED:
        producer.produce(prefix + topic, fresh[topic], KEY, headers={"x": b"1"})
        # on its way back from a try before
        headers = {"x": b"1", "due-at": b"%d" % now_ms, "unknown-since": b"%d" % (now_ms - FOR_MS)}
        to = {} if topic == JOBS else {"forward-to": topic.encode()}
        producer.produce(prefix + SHORTEST, old[topic], KEY, headers={**headers, **to})
    assert producer.flush(30) == 0

    for topic in (DEAD, WAITS_IN):
        until(lambda topic=topic: records_of(kafka, prefix + topic) == len(FORWARDED), 120)
    dead = read_all(kafka, prefix + DEAD, len(FORWARDED))
    assert {told_of(one, "kafka_dlt-original-topic"): one.value() for one in dead} == {
        prefix + topic: value for topic, value in old.items()
    }
    for letter in dead:
        assert letter.key() == KEY and told_of(letter, "x") == "1"
        assert told_of(letter, "reason") == "unknown_schema"

    waits = {one.value(): one for one in read_all(kafka, prefix + WAITS_IN, len(FORWARDED))}
    for topic, value in fresh.items():
        record = waits[value]
        assert record.key() == KEY and told_of(record, "x") == "1"
        assert told_of(record, "forward-to") == ("" if topic == JOBS else topic)
        assert int(told_of(record, "due-at")) - int(told_of(record, "unknown-since")) == EVERY_MS
    places = {one.partition() for one in (*dead, *waits.values())}
    assert len(places) == 1, "a contact's records stay together"


def told_of(record: Message, name: str) -> str:
    """A header as text; empty: it has none of that name."""
    return dict(record.headers() or []).get(name, b"").decode()  # type: ignore[arg-type, union-attr]
