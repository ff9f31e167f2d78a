"""Asks everybody who may know about an id, and makes one story of the answers."""

from __future__ import annotations

import time

from kafka_access import nobody_listens
from ops.errors import OpsError, Unreachable
from ops.why.evidence import Evidence, is_of
from ops.why.letters import letters
from ops.why.live import NotLookedThrough, live
from ops.why.reader import TopicReader
from ops.why.reading import read
from ops.why.story import Story, story
from settings import RajadaError, Settings
from streams import topics


def why(url: str, bootstrap: str, settings: Settings, asked: str, whose: str | None = None) -> Story:
    """The story of an event, a message, a job or a contact.

    Without Kafka the story is told as far as Postgres knows it, with a note. Raises OpsError when Postgres
    can't be asked.

    Args:
        url: libpq URL.
        bootstrap: Kafka's host:port list.
        settings: the topics' prefix and EVENT_REAP_MS.
        asked: the id, a lower-case UUID.
        whose: the organization that alone may be told of; None = any.
    """
    evidence = read(url, asked)
    if whose is not None and not is_of(evidence, whose):
        nothing = Evidence(asked, looked_at=evidence.looked_at)
        return story(nothing, time.time_ns() // 1_000_000, settings.event_reap_ms)
    try:
        _ask_kafka(url, bootstrap, settings, evidence)
    except (OpsError, RajadaError, NotLookedThrough) as error:
        evidence.notes.append(f"What is going on now is not told: {error}")
    return story(evidence, time.time_ns() // 1_000_000, settings.event_reap_ms)


def _ask_kafka(url: str, bootstrap: str, settings: Settings, evidence: Evidence) -> None:
    if nobody_listens(bootstrap):
        raise Unreachable(f"Kafka at {bootstrap} does not answer: it refuses connections")
    ids = {evidence.asked, *evidence.event_ids, *(job.id for job in evidence.jobs)}
    begun = [event.created_at.timestamp() for event in evidence.events]
    begun += [row.at.timestamp() for row in evidence.trace]
    with TopicReader(bootstrap) as reader:
        # what died was written before: the clocks of two machines may differ by a little
        since_ms = int(min(begun) * 1000) - 60_000 if begun else None
        evidence.letters, looked = letters(reader, settings, ids, since_ms)
    evidence.looked_at += looked
    if evidence.organization_id and evidence.contact_id:
        key = f"{evidence.organization_id}:{evidence.contact_id}".encode()
        evidence.live = live(url, bootstrap, settings, key)
        evidence.looked_at.append(f"Kafka: {settings.topic(topics.CONTACTS_CHANGELOG)}, the contact's record")
