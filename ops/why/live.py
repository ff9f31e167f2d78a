"""What the worker remembers of a contact now, read from its table's changelog; read-only."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from db.sweep_claims import Claims
from ops.asking import asking
from ops.why.evidence import Live
from ops.why.reader import TopicReader, headers_of
from settings import Settings
from streams import topics
from streams.contact import Contact, decode_contact
from streams.lag import Lags
from streams.partitioner import partition_of
from streams.transport.token import Reader

FIRST_CHUNK: Final = 2_000
"""Records of the changelog's end that are looked at first: what is live was written lately."""
LONGEST_S: Final = 20.0


class NotLookedThrough(Exception):
    """The changelog is longer than what can be read in time; the message says how far it was read."""


def live(url: str, bootstrap: str, settings: Settings, key: bytes) -> Live:
    """What is remembered of a contact, how much the worker has yet to read, and what the sink has written.

    Args:
        url: libpq URL.
        bootstrap: Kafka's host:port list.
        settings: the topics' prefix.
        key: `organization_id:contact_id`.

    Raises:
        OpsError, LagUnknown: a server does not answer.
        NotLookedThrough: the contact's record was not found within the time.
    """
    topic = settings.topic
    lags = Lags(bootstrap)
    positions = lags.of_group(topic(topics.SOURCE), topic(topics.APP_ID), settings.sweep_max_lag_s)
    partition = partition_of(key, len(positions))
    with asking(url), Claims(url) as claims:
        written = claims.written(lags.topic_id(topic(topics.OUTCOMES)))
    with TopicReader(bootstrap) as reader:
        contact = newest(reader, topic(topics.CONTACTS_CHANGELOG), partition, key)
    return Live(contact, partition, positions[partition].unread, written.get(partition, 0))


def newest(reader: TopicReader, topic: str, partition: int, key: bytes) -> Contact | None:
    """The last record of a key in its partition, looked for from the end; None: a tombstone, or none at all.

    Raises Unreachable, NotLookedThrough.
    """
    deadline = time.monotonic() + LONGEST_S
    start, end = reader.bounds(topic, partition)
    chunk = FIRST_CHUNK
    while end > start:
        begin = max(start, end - chunk)
        tokens, found, value = Reader(), False, None
        for message in reader.read(topic, {partition: (begin, end)}, deadline):
            # what a replaced worker wrote late does not count
            if tokens.accepts(headers_of(message)) and message.key() == key:
                found, value = True, message.value()
        if found:
            return _contact(value)
        if time.monotonic() >= deadline:
            raise NotLookedThrough(f"{topic} [{partition}] was read back to offset {begin} only")
        end, chunk = begin, chunk * 4
    return None


def _contact(value: bytes | str | None) -> Contact | None:
    if not value:
        return None
    try:
        return decode_contact(value if isinstance(value, bytes) else value.encode())
    except msgspec.DecodeError:
        return None
