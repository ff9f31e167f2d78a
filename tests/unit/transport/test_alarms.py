"""What stands still is told once, with what to do, and whoever reports readiness hears of every change."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from faust.types import TP
from structlog.testing import capture_logs

from streams.transport import oversight
from streams.transport.alarms import WHAT_TO_DO, Alarms
from streams.transport.lease import Lease
from streams.transport.ledger import Ledger
from streams.transport.oversight import Oversight

P, Q = TP("t", 0), TP("t", 1)


def test_an_alarm_is_told_once_until_it_is_over():
    alarms, heard = Alarms(), []
    alarms.on_change = lambda active: heard.append(sorted(active))
    with capture_logs() as logs:
        for _ in range(3):
            alarms.raise_("stalled", "for 9 s: t-0")
        alarms.set("silent", "for 4 s")
        alarms.set("stalled", None)
        alarms.clear("stalled")
    assert heard == [["stalled"], ["silent", "stalled"], ["silent"]]
    assert alarms.active == {"silent": "for 4 s"}
    assert alarms.counts == {"stalled": 1, "silent": 1}
    assert [line["log_level"] for line in logs] == ["error", "error", "info"]
    assert logs[0]["what_to_do"] == WHAT_TO_DO["stalled"]


def test_what_is_over_already_is_counted_and_logged_without_changing_readiness():
    alarms = Alarms()
    alarms.on_change = pytest.fail
    with capture_logs() as logs:
        alarms.note("deleted", tp="t-0", start=3, end=9)
    assert (alarms.counts["deleted"], alarms.active) == (1, {})
    assert (logs[0]["start"], logs[0]["end"]) == (3, 9)


class Consumer:
    """What is looked at, with a clock of its own."""

    def __init__(self, clock):
        self.clock = clock
        self.ledger, self.alarms, self.generation = Ledger(), Alarms(), 1
        conf = SimpleNamespace(
            broker_commit_livelock_soft_timeout=10.0,
            broker_session_timeout=6.0,
            broker_rebalance_timeout=60.0,
        )
        self.app = SimpleNamespace(conf=conf, rebalancing=False, should_stop=False)
        self._thread = SimpleNamespace(lease=Lease(6.0))
        self.recovering = None
        self.ownership = SimpleNamespace(progress=lambda: self.recovering)
        self.starts = {}
        self.ledger.assign([P, Q])
        for tp, epoch in self.ledger.rewind([P, Q]).items():
            self.ledger.settle(epoch, tp, 0)

    def _is_changelog_tp(self, tp):
        return False

    async def earliest_offsets(self, *tps):
        return {tp: self.starts.get(tp, 0) for tp in tps}

    def deliver(self, tp, start, end):
        return self.ledger.accept(self.ledger.epoch(tp), tp, start, end, "r")

    async def pass_(self, seconds, heartbeats=True):
        """Look every second."""
        for _ in range(seconds):
            self.clock.at += 1
            if heartbeats:
                self._thread.lease.renew(self.clock.at)
            await self.oversight.look()


@pytest.fixture
def consumer(monkeypatch):
    clock = SimpleNamespace(at=1000.0)
    monkeypatch.setattr(oversight, "monotonic", lambda: clock.at)
    monkeypatch.setattr("streams.transport.lease.monotonic", lambda: clock.at)
    made = Consumer(clock)
    made.oversight = Oversight(made)
    return made


async def test_br_09_work_that_never_ends_is_told_and_the_worker_isnt_ready(consumer):
    hung, other = consumer.deliver(P, 0, 5), consumer.deliver(Q, 0, 5)
    consumer.ledger.finish(other)
    consumer.ledger.committed(consumer.ledger.epoch(Q), Q, 5)
    await consumer.pass_(10)
    assert consumer.alarms.active == {}
    await consumer.pass_(2)
    assert consumer.alarms.active == {"stalled": "for 10 s: t-0"}
    consumer.ledger.finish(hung)
    consumer.ledger.committed(consumer.ledger.epoch(P), P, 5)
    await consumer.pass_(1)
    assert consumer.alarms.active == {}


async def test_finished_work_whose_commit_isnt_confirmed_is_told(consumer):
    consumer.ledger.finish(consumer.deliver(P, 0, 5))
    await consumer.pass_(12)
    assert consumer.alarms.active == {"uncommitted": "for 10 s: t-0"}


async def test_silence_is_told_sooner_when_partitions_are_ours(consumer):
    await consumer.pass_(5)
    await consumer.pass_(7, heartbeats=False)
    assert consumer.alarms.active == {"silent": "for 7 s"}
    consumer.generation = None  # joining may take as long as the others need to end their work
    await consumer.pass_(50, heartbeats=False)
    assert consumer.alarms.active == {}
    await consumer.pass_(20, heartbeats=False)
    assert "silent" in consumer.alarms.active
    await consumer.pass_(1)
    assert consumer.alarms.active == {}


async def test_who_leaves_the_group_to_stop_is_not_silent(consumer):
    await consumer.pass_(5)
    consumer.app.should_stop = True
    consumer._thread.lease.drop()
    await consumer.pass_(10, heartbeats=False)
    assert consumer.alarms.active == {}


async def test_retention_that_passed_a_commit_is_told_once(consumer):
    await consumer.pass_(40)
    consumer.starts[P] = 7
    await consumer.pass_(100)
    assert consumer.alarms.counts == {"deleted": 1}


async def test_br_17_a_recovery_that_stands_still_ends_the_process_and_says_what_to_do(consumer, monkeypatch):
    def end(error):
        raise error

    monkeypatch.setattr(oversight, "end_process", end)
    for read in range(100):
        consumer.recovering = (read, 129 - read)
        await consumer.pass_(1)
    consumer.recovering = (100, 29)
    with pytest.raises(Exception, match=r"no progress in 60 s with 29 changelog records left.*faust reset"):
        await consumer.pass_(70)
