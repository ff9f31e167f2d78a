"""The group's leader gives out partitions only when it knows every topic that is to be given out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streams.transport import fetching
from streams.transport.fetching import ConsumerThread, TopicsMissing
from streams.transport.lease import Lease


class Ended(Exception):
    pass


def leader(monkeypatch, knows_after, session_timeout=1.0):
    """A leader whose brokers know the second topic after so many updates of its metadata."""
    updates = []

    async def update():
        updates.append(1)

    def partitions_for_topic(topic):
        return {0, 1} if topic == "in" or len(updates) >= knows_after else None

    def end_process(error):
        raise Ended from error

    async def at_once(_):
        sleeps.append(1)

    sleeps = []
    monkeypatch.setattr(fetching, "end_process", end_process)
    monkeypatch.setattr(fetching, "monotonic", lambda: 0.1 * len(sleeps))
    monkeypatch.setattr(fetching, "asyncio", SimpleNamespace(sleep=at_once))
    thread = ConsumerThread.__new__(ConsumerThread)
    thread.lease = Lease(session_timeout)
    thread._consumer = SimpleNamespace(
        _client=SimpleNamespace(
            cluster=SimpleNamespace(partitions_for_topic=partitions_for_topic), force_metadata_update=update
        ),
        _subscription=SimpleNamespace(subscription=SimpleNamespace(topics={"in", "app-t-changelog"})),
    )
    return thread, updates


async def assign(response):
    return f"assignment of {response}"


@pytest.mark.parametrize("knows_after", [0, 3])
async def test_it_waits_until_a_broker_that_has_just_come_back_knows_all_topics(monkeypatch, knows_after):
    thread, updates = leader(monkeypatch, knows_after)
    assert await thread._assign(assign, "all members") == "assignment of all members"
    assert len(updates) == knows_after


async def test_it_ends_within_its_lease_rather_than_let_the_whole_group_idle(monkeypatch):
    thread, updates = leader(monkeypatch, knows_after=10**6)
    with pytest.raises(Ended) as ended:
        await thread._assign(assign, "all members")
    assert isinstance(ended.value.__cause__, TopicsMissing)
    assert "create the topics ['app-t-changelog']" in str(ended.value.__cause__)
    assert 5 < len(updates) < 10, "a session timeout of 1 s"
