"""The ledger never commits what wasn't processed, and always ends with everything committed."""

from __future__ import annotations

import gc
import weakref
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streams.transport.ledger import Ledger

from .ledger_model import PARTITIONS, Model, walk

partitions = st.sampled_from(PARTITIONS)
index = st.integers(0, 99)


class Machine(RuleBasedStateMachine):
    """Hypothesis' way through the model: it finds the shortest way to break it."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(Ledger())

    @initialize(n=st.integers(0, 8))
    def start(self, n):
        for partition in PARTITIONS:
            self.model.produce(partition, [True] * n)
        self.model.assign(set(PARTITIONS), then_seek=True)

    @rule(partition=partitions, exists=st.lists(st.booleans(), min_size=1, max_size=8))
    def produce(self, partition, exists):
        self.model.produce(partition, exists)

    @rule(limit=st.integers(1, 6), size=st.integers(1, 3))
    def fetch_and_deliver(self, limit, size):
        self.model.fetch(limit)
        while self.model.fetches:
            self.model.deliver(0, size, cut=False)

    @rule(limit=st.integers(1, 5))
    def fetch(self, limit):
        self.model.fetch(limit)

    @precondition(lambda self: self.model.fetches)
    @rule(i=index, size=st.integers(1, 4), cut=st.booleans())
    def deliver(self, i, size, cut):
        self.model.deliver(i, size, cut)

    @precondition(lambda self: self.model.fetches)
    @rule(i=index)
    def drop_fetch(self, i):
        self.model.drop_fetch(i)

    @precondition(lambda self: self.model.batches)
    @rule(i=index, twice=st.booleans())
    def finish(self, i, twice):
        self.model.finish(i, twice)

    @rule(partition=partitions)
    def commit_begin(self, partition):
        self.model.commit_begin(partition)

    @precondition(lambda self: self.model.commits)
    @rule(i=index, fails=st.booleans())
    def commit_end(self, i, fails):
        self.model.commit_end(i, fails)

    @rule(wanted=st.sets(partitions, min_size=1))
    def seek(self, wanted):
        self.model.seek(wanted)

    @rule(wanted=st.sets(partitions, max_size=1))
    def seek_begin(self, wanted):
        self.model.seek_begin(wanted)

    @precondition(lambda self: self.model.seeks)
    @rule(i=index, cancelled=st.booleans())
    def seek_end(self, i, cancelled):
        self.model.seek_end(i, cancelled)

    @rule(wanted=st.sets(partitions), rarely=st.integers(0, 3), then_seek=st.booleans())
    def assign(self, wanted, rarely, then_seek):
        if not rarely:
            self.model.assign(wanted, then_seek)

    @rule(rarely=st.integers(0, 5))
    def revoke(self, rarely):
        if not rarely:
            self.model.revoke()

    @rule(rarely=st.integers(0, 3), then_seek=st.booleans())
    def suspend(self, rarely, then_seek):
        if not rarely:
            self.model.suspend(then_seek)

    @rule(partition=partitions, n=st.integers(1, 6))
    def other_owner(self, partition, n):
        self.model.other_owner(partition, n)

    @rule(partition=partitions, by=st.integers(1, 4))
    def run_ahead(self, partition, by):
        self.model.run_ahead(partition, by)

    @rule(partition=partitions, n=st.integers(0, 3))
    def abort(self, partition, n):
        self.model.abort(partition, n)

    @rule(partition=partitions, n=st.integers(1, 3))
    def commit_transaction(self, partition, n):
        self.model.commit_transaction(partition, n)

    @rule(partition=partitions, i=index)
    def compact(self, partition, i):
        self.model.compact(partition, i)

    @rule(partition=partitions, n=st.integers(1, 3))
    def expire(self, partition, n):
        self.model.expire(partition, n)

    @rule(partition=partitions, n=st.integers(1, 3), rarely=st.integers(0, 3))
    def expire_past_commit(self, partition, n, rarely):
        if not rarely:
            self.model.expire_past_commit(partition, n)

    @rule(size=st.integers(1, 4), rarely=st.integers(0, 5))
    def deliver_old(self, size, rarely):
        if not rarely:
            self.model.deliver_old(size)

    @rule(limit=st.integers(1, 5), size=st.integers(1, 3), rarely=st.integers(0, 5))
    def resume_early(self, limit, size, rarely):
        if not rarely:
            self.model.resume_early(limit, size)

    @invariant()
    def nothing_below_a_commit_is_undone(self):
        self.model.check()

    def teardown(self):
        self.model.drain()


def looking(examples: int, steps: int) -> settings:
    """How far Hypothesis looks."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


Machine.TestCase.settings = looking(examples=40, steps=60)
TestEveryOrderOfSteps = pytest.mark.thorough(Machine.TestCase)


@pytest.mark.slow
class TestAHundredThousandSteps(Machine.TestCase):
    """The same for as long as nobody waits for it."""

    settings = looking(examples=1000, steps=100)


def walk_all(seeds: range) -> None:
    for seed in seeds:
        try:
            walk(Ledger(), seed)
        except AssertionError as error:
            raise AssertionError(f"walk {seed}: {error}") from error


@pytest.mark.thorough
def test_random_walks_lose_nothing_and_end_committed():
    walk_all(range(400))


@pytest.mark.slow
def test_half_a_million_random_steps_lose_nothing_and_end_committed():
    walk_all(range(400, 4600))


# -- single rules, for the reader


@pytest.fixture
def ledger():
    ledger: Ledger[str, str] = Ledger()
    ledger.assign(["p"])
    ledger.settle(ledger.rewind(["p"])["p"], "p", 10)
    return ledger


def take(ledger, start, end, records="r"):
    batch = ledger.accept(ledger.epoch("p"), "p", start, end, records)
    assert batch is not None
    return batch


def test_an_assigned_partition_is_closed_until_its_seek_has_ended():
    ledger: Ledger[str, str] = Ledger()
    ledger.assign(["p"])
    assert ledger.fetchable(["p"]) == {}
    assert ledger.base("p") is None
    assert ledger.commit_point("p") is None
    epoch = ledger.rewind(["p"])["p"]
    assert ledger.settle(epoch, "p", 5)
    assert ledger.fetchable(["p", "other"]) == {"p": (epoch, 5)}


def test_a_seek_overtaken_by_another_does_not_open_the_partition(ledger):
    old = ledger.rewind(["p"])["p"]
    new = ledger.rewind(["p"])["p"]
    assert not ledger.settle(old, "p", 1)
    assert ledger.fetchable(["p"]) == {}
    assert ledger.settle(new, "p", 2)
    assert not ledger.settle(new, "p", 3)
    assert ledger.base("p") == 2


def test_only_the_continuation_is_accepted(ledger):
    epoch = ledger.epoch("p")
    assert ledger.accept(epoch, "p", 11, 12, "r") is None
    assert ledger.accept(epoch, "p", 9, 12, "r") is None
    assert ledger.accept(epoch, "p", 10, 10, "") is None
    assert ledger.accept(epoch - 1, "p", 10, 12, "r") is None
    assert ledger.accept(epoch, "p", 10, 12, "r") is not None
    assert ledger.expected(epoch, "p") == 12
    assert ledger.expected(epoch - 1, "p") is None


def test_the_commit_point_waits_for_the_oldest_batch(ledger):
    first, second = take(ledger, 10, 12), take(ledger, 12, 20)
    ledger.finish(second)
    assert ledger.commit_point("p") is None
    assert [batch.start for batch in ledger.in_flight("p")] == [10, 12]
    ledger.finish(first)
    assert ledger.commit_point("p") == ledger.base("p") == 20


def test_a_range_without_records_is_finished_by_itself_and_in_its_turn(ledger):
    first = take(ledger, 10, 12)
    take(ledger, 12, 30, records="")
    assert ledger.commit_point("p") is None
    ledger.finish(first)
    assert ledger.commit_point("p") == 30


def test_an_unconfirmed_commit_is_offered_again_until_it_is_confirmed(ledger):
    ledger.finish(take(ledger, 10, 12))
    assert ledger.commit_point("p") == 12
    assert ledger.commit_point("p") == 12
    ledger.committed(ledger.epoch("p"), "p", 12)
    assert ledger.commit_point("p") is None
    assert ledger.progress() == {"p": (12, 12, 12)}


def test_progress_tells_what_is_delivered_finished_and_committed(ledger):
    first = take(ledger, 10, 12)
    take(ledger, 12, 20)
    ledger.finish(first)
    (at,) = ledger.progress().values()
    assert at == (10, 12, 20)
    assert (at.unfinished, at.uncommitted) == (8, 2)
    ledger.rewind(["p"])
    assert ledger.progress() == {}


def test_a_confirmation_of_an_older_epoch_says_nothing(ledger):
    old = ledger.epoch("p")
    ledger.finish(take(ledger, 10, 12))
    ledger.settle(ledger.rewind(["p"])["p"], "p", 10)
    ledger.finish(take(ledger, 10, 12))
    ledger.committed(old, "p", 12)
    assert ledger.commit_point("p") == 12


def test_a_batch_of_an_older_epoch_counts_for_nothing(ledger):
    batch = take(ledger, 10, 12)
    ledger.settle(ledger.rewind(["p"])["p"], "p", 10)
    assert not ledger.is_live(batch)
    assert not ledger.finish(batch)
    assert ledger.commit_point("p") is None


def test_what_is_in_flight_may_end_and_be_committed_while_suspended(ledger):
    batch = take(ledger, 10, 12)
    ledger.suspend()
    assert ledger.fetchable(["p"]) == {}
    assert ledger.accept(ledger.epoch("p"), "p", 12, 14, "r") is None
    assert ledger.finish(batch)
    assert ledger.commit_point("p") == 12


def test_a_seek_under_way_does_not_open_a_suspended_partition(ledger):
    epoch = ledger.rewind(["p"])["p"]
    ledger.suspend()
    assert not ledger.settle(epoch, "p", 10)
    assert ledger.fetchable(["p"]) == {}
    assert ledger.settle(ledger.rewind(["p"])["p"], "p", 10)


def test_a_revoked_partition_is_forgotten(ledger):
    batch = take(ledger, 10, 12)
    ledger.revoke(["p", "never ours"])
    assert list(ledger) == []
    assert not ledger.finish(batch)
    assert ledger.epoch("p") is None
    assert list(ledger.in_flight("p")) == []


def test_an_untracked_range_moves_on_but_is_never_committed(ledger):
    ledger.accept(ledger.epoch("p"), "p", 10, 12, "r", tracked=False)
    assert ledger.expected(ledger.epoch("p"), "p") == 12
    assert ledger.base("p") == 10
    assert ledger.commit_point("p") is None


def test_new_assignments_never_reuse_an_epoch():
    ledger: Ledger[str, str] = Ledger()
    seen = set()
    for _ in count():
        ledger.assign(["p"])
        assert ledger.epoch("p") not in seen
        seen.add(ledger.epoch("p"))
        if len(seen) == 5:
            break


class Message:
    """As the consumer hands it to the streams: it knows its batch, which knows it while it is in flight."""

    def __init__(self, batch):
        self.batch = batch
        batch.message = self


ENDS = {
    "finished": lambda ledger, batch: ledger.finish(batch),
    "revoked": lambda ledger, batch: ledger.revoke(["p"]),
    "sought anew": lambda ledger, batch: ledger.rewind(["p"]),
    "assigned anew": lambda ledger, batch: ledger.assign(["p"]),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_batch_that_is_over_keeps_no_records_until_circles_are_looked_for(how: str) -> None:
    ledger: Ledger[str, str] = Ledger()
    ledger.assign(["p"])
    epoch = ledger.rewind(["p"])["p"]
    ledger.settle(epoch, "p", 0)
    first = ledger.accept(epoch, "p", 0, 1, ["held up"])
    batch = ledger.accept(epoch, "p", 1, 3, ["a", "b"])
    assert first is not None and batch is not None
    Message(first)
    left = weakref.ref(Message(batch))
    gc.disable()
    try:
        assert left() is not None, "in flight its flag is looked at"
        ENDS[how](ledger, batch)
        del batch
        assert left() is None
    finally:
        gc.enable()
