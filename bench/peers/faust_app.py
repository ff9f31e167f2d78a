"""Stock Faust on the main path's work: its own transport (aiokafka), an agent, a table with a changelog.

Windows and contact records are ours (`streams.windows`, `streams.contact`), the way there is Faust's own: an
event at a time, a table write each, a send each. Windows are closed by the events that follow in their
partition, and by a timer when none came for half a minute.

`python -m bench.peers.faust_app worker --without-web`, with the variables of `bench.peers.program`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from heapq import heappop, heappush
from typing import Any

import faust

from bench.peers.program import ready
from bench.peers.records import Told, event_of, now_ms, sent
from streams.contact import Contact, Window, decode_contact, encode_contact
from streams.events import event_time_ms
from streams.partitioner import partition_of
from streams.windows import WindowRule, drop, find, prune, take_in

IDLE_S = 30.0
TICK_S = 0.1

told = Told.read()
RULE = WindowRule(length_ms=told.window_ms)


app = faust.App(
    told.application,
    broker=f"kafka://{told.bootstrap}",
    store="memory://",
    datadir=told.state,
    web_enabled=False,
    topic_partitions=told.partitions,
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=6.0,
    broker_heartbeat_interval=2.0,
    stream_recovery_delay=0.0,
)


def _topic(name: str) -> Any:
    return app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")


source, jobs, outcomes = _topic(told.source), _topic(told.jobs), _topic(told.outcomes)
contacts = app.Table("contacts", partitions=told.partitions, key_type=bytes, value_type=bytes)

Due = tuple[int, bytes, str]
"""Deadline, contact's key, window's id."""


class Partition:
    """What is known of one partition of the source."""

    def __init__(self) -> None:
        self.open: list[Due] = []
        self.newest_ms = 0
        self.arrived_s = time.monotonic()


partitions: dict[int, Partition] = defaultdict(Partition)


@contacts.on_recover
async def recovered() -> None:
    """Find the open windows in what was restored."""
    partitions.clear()
    for key, value in contacts.data.items():
        for window in decode_contact(value).windows:
            _opened(partition_of(key, told.partitions), key, window)
    ready()


def _opened(number: int, key: bytes, window: Window) -> None:
    heappush(partitions[number].open, (window.deadline_ms, key, window.id))


@app.agent(source)
async def windows(stream: Any) -> None:
    """An event at a time: into its window, then whatever windows its time ends."""
    async for one in stream.events():
        message = one.message
        headers = list(message.headers or ())
        at_ms = event_time_ms(headers, int(message.timestamp * 1000), now_ms())
        partition = partitions[message.partition]
        event = event_of(one.value, headers, at_ms)
        if event is not None:
            known = contacts.get(event.key)
            contact = decode_contact(known) if known is not None else Contact(topic_id="")
            what, window = take_in(contact, event, RULE, (), now_ms(), newest_ms=partition.newest_ms)
            if what == "opened" and window is not None:
                _opened(message.partition, event.key, window)
            contacts[event.key] = encode_contact(contact)
        partition.newest_ms = max(partition.newest_ms, at_ms)
        partition.arrived_s = time.monotonic()
        while partition.open and partition.open[0][0] < partition.newest_ms:
            key, left = await _close(partition)
            if left is not None:
                contacts[key] = encode_contact(left)


@app.timer(interval=TICK_S)
async def idle() -> None:
    """Close by the clock what no event will."""
    for number, partition in list(partitions.items()):
        if time.monotonic() - partition.arrived_s > IDLE_S:
            while partition.open and partition.open[0][0] < now_ms():
                key, contact = await _close(partition)
                if contact is not None:
                    # outside of an event a table can't tell its partition: written as its own methods do
                    value = encode_contact(contact)
                    contacts.data[key] = value
                    await contacts.send_changelog(number, key, value)


async def _close(partition: Partition) -> tuple[bytes, Contact | None]:
    """Send the next window's job and outcome; its contact without it, None when it is gone already."""
    _, key, window_id = heappop(partition.open)
    known = contacts.data.get(key)
    contact = decode_contact(known) if known is not None else None
    window = find(contact, window_id) if contact is not None else None
    if contact is None or window is None:
        return key, None
    job, outcome = sent(key, window.conversation_id, window.events, window.deadline_ms, window.length_ms)
    await jobs.send(key=key, value=job)
    await outcomes.send(key=key, value=outcome)
    drop(contact, window, 0, now_ms())
    prune(contact, 1, now_ms())
    return key, contact


if __name__ == "__main__":
    app.main()
