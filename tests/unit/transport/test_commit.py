"""Commits that come too late are dropped with a count, and never end anything."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, GroupAuthorizationFailedError, IllegalStateError
from faust.types import TP

from streams.transport import fetching
from streams.transport.fetching import ConsumerThread


class Ended(Exception):
    """The process would have ended."""


class Kafka:
    """What the thread needs of an aiokafka consumer."""

    def __init__(self, *assigned, raises=None):
        self.assigned, self.raises, self.committed = set(assigned), raises, {}

    def assignment(self):
        return {TopicPartition(*tp) for tp in self.assigned}

    async def commit(self, offsets):
        if self.raises:
            raise self.raises
        for tp in offsets:
            if tuple(tp) not in self.assigned:
                raise IllegalStateError(f"Partition {tp} is not assigned")
        self.committed.update({tuple(tp): meta.offset for tp, meta in offsets.items()})


def thread_of(kafka):
    thread = ConsumerThread.__new__(ConsumerThread)
    thread._consumer = kafka
    thread.consumer = SimpleNamespace(commits_refused=0)
    return thread


async def test_br_07_a_partition_revoked_before_its_commit_ran_keeps_nobody_from_committing():
    kafka = Kafka(("t", 1))
    thread = thread_of(kafka)
    assert await thread._commit({TP("t", 0): 5, TP("t", 1): 7})
    assert kafka.committed == {("t", 1): 7}


@pytest.mark.parametrize(
    "error", [CommitFailedError("another generation"), IllegalStateError("not assigned")]
)
async def test_br_07_a_refused_commit_is_counted_and_not_fatal(error):
    thread = thread_of(Kafka(("t", 0), raises=error))
    assert not await thread._commit({TP("t", 0): 5})
    assert thread.consumer.commits_refused == 1


async def test_a_commit_that_can_never_succeed_ends_the_worker(monkeypatch):
    def end(error):
        raise Ended from error

    monkeypatch.setattr(fetching, "end_process", end)
    with pytest.raises(Ended):
        await thread_of(Kafka(("t", 0), raises=GroupAuthorizationFailedError("g")))._commit({TP("t", 0): 5})
