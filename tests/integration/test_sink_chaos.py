"""Sinks that are killed, frozen and doubled: rows and offsets agree at every moment, effects count once."""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.records import Alert, Outcome
from settings import Settings
from sinks import outcomes as sink_module
from tests.integration.sink_lab import Lab, until

ALERT_EVERY = 10


@pytest.fixture
def lab(kafka: str, database: str, prefix: str) -> Iterator[Lab]:
    made = Lab(database, kafka, Settings(topic_prefix=prefix, session_timeout_s=2.0))
    yield made
    made.close()


class Load:
    """Outcomes of one event and one job each; every tenth one alerts. What they must come to is known."""

    def __init__(self, lab: Lab, count: int) -> None:
        self.lab = lab
        self.events = [str(uuid.uuid4()) for _ in range(count)]
        lab.add_events(self.events)
        made = [self._outcome(n, event) for n, event in enumerate(self.events)]
        self.places = dict(zip(self.events, lab.spread(made), strict=True))
        self.alerting = set(self.events[::ALERT_EVERY])
        self.alerts = len(self.alerting)

    def _outcome(self, n: int, event: str) -> Outcome:
        job = self.lab.job(event)
        alert = Alert(kind="event_dead", title="t", body="b") if n % ALERT_EVERY == 0 else None
        return self.lab.outcome(
            event, outcome="job", job_id=job.id, job=job, job_status="pending", alert=alert
        )

    def assert_rows_agree_with_offsets(self) -> int:
        """At this moment an event is done exactly when its record is below the offset; how many are."""
        topic_id = self.lab.topic_id()
        states = self.lab.execute(
            "SELECT e.id::text, e.status, o.partition, o.next_offset, j.id IS NOT NULL, i.occurrences,"
            " (SELECT count(*) FROM rajada.trace t WHERE t.event_id = e.id)"
            " FROM event_log e LEFT JOIN job_queue j ON j.id = e.job_id"
            " CROSS JOIN rajada.sink_offsets o LEFT JOIN agent_inbox_items i ON true WHERE o.topic_id = %s",
            topic_id,
        )
        below, alerts, counted = 0, 0, 0
        for event, state, partition, next_offset, has_job, occurrences, traces in states:
            where, offset = self.places[event]
            counted = occurrences or 0
            if where != partition:
                continue
            applied = offset < next_offset
            below += applied
            alerts += applied and event in self.alerting
            assert (state == "done", has_job, traces) == (applied, applied, int(applied)), (where, offset)
        assert counted == alerts
        return below

    def assert_complete(self) -> None:
        lab = self.lab
        assert lab.value("SELECT count(*) FROM event_log WHERE status = 'done'") == len(self.events)
        assert lab.value("SELECT count(*) FROM job_queue") == len(self.events)
        assert lab.value("SELECT count(*) FROM rajada.trace") == 2 * len(self.events)
        assert lab.execute("SELECT occurrences FROM agent_inbox_items") == [(self.alerts,)]
        assert lab.dead_letters() == []


@pytest.mark.long
def test_kill_9_in_the_middle_of_batches_leaves_rows_and_offsets_in_agreement(lab: Lab) -> None:
    # Several batches a partition, so that there is a middle to be killed in however fast the sink is.
    load = Load(lab, 20_000)
    dice = random.Random(7)
    seen = []
    for _ in range(7):
        before = sum(lab.offsets().values())
        sink = lab.process()
        until(lambda: sum(lab.offsets().values()) > before or lab.caught_up(), "the sink writes")  # noqa: B023
        time.sleep(dice.uniform(0, 0.1))
        sink.kill()
        sink.join()
        seen.append(load.assert_rows_agree_with_offsets())
        if seen[-1] == len(load.events):
            break
    assert len([count for count in seen if 0 < count < len(load.events)]) >= 2, f"killed too late: {seen}"
    with lab.sink():
        lab.until_caught_up()
    load.assert_complete()


def test_two_sinks_share_the_partitions_and_double_nothing(lab: Lab) -> None:
    first = lab.process()
    load = Load(lab, 3_000)
    until(lambda: sum(lab.offsets().values()) > 0, "the first sink writes")
    second = lab.process()
    more = Load(lab, 3_000)
    lab.until_caught_up()
    first.terminate()
    first.join(20)
    assert first.exitcode == 0
    third = Load(lab, 500)
    lab.until_caught_up()
    second.terminate()
    second.join(20)
    assert second.exitcode == 0
    total = len(load.events) + len(more.events) + len(third.events)
    assert lab.value("SELECT count(*) FROM event_log WHERE status = 'done'") == total
    assert lab.value("SELECT count(*) FROM rajada.trace") == 2 * total
    assert (
        lab.value("SELECT sum(occurrences) FROM agent_inbox_items")
        == load.alerts + more.alerts + third.alerts
    )
    assert lab.value("SELECT count(*) FROM agent_inbox_items") == 1


def test_two_sinks_that_both_believe_to_own_all_write_everything_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group gone wrong: only the compare-and-set stands between them."""
    load = Load(lab, 4_000)
    monkeypatch.setattr(sink_module, "BATCH", 50)
    with lab.sink():
        until(lambda: sum(lab.offsets().values()) > 0, "the first sink writes")
        monkeypatch.setattr(sink_module, "GROUP", "another-group")
        with lab.sink():
            lab.until_caught_up()
            late = Load(lab, 300)
            lab.until_caught_up()
    assert lab.value("SELECT count(*) FROM event_log WHERE status = 'done'") == 4_300
    assert lab.value("SELECT count(*) FROM rajada.trace") == 2 * 4_300
    assert lab.value("SELECT sum(occurrences) FROM agent_inbox_items") == load.alerts + late.alerts


def test_a_frozen_sink_that_wakes_up_writes_nothing_twice(lab: Lab) -> None:
    frozen = lab.process()
    load = Load(lab, 3_000)
    until(lambda: sum(lab.offsets().values()) > 0, "the first sink writes")
    assert frozen.pid is not None
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        with lab.sink():
            # its transaction may hold the rows until Postgres ends it
            lab.until_caught_up(90)
            os.kill(frozen.pid, signal.SIGCONT)
            more = Load(lab, 1_000)
            lab.until_caught_up()
            time.sleep(1)
        lab.until_caught_up()
    finally:
        frozen.kill()
        frozen.join()
    total = len(load.events) + len(more.events)
    assert lab.value("SELECT count(*) FROM event_log WHERE status = 'done'") == total
    assert lab.value("SELECT count(*) FROM rajada.trace") == 2 * total
    assert lab.value("SELECT sum(occurrences) FROM agent_inbox_items") == load.alerts + more.alerts


@pytest.mark.slow
def test_kafka_killed_and_started_again_loses_nothing(
    database: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ops.embedded.kafka import EmbeddedKafka

    with EmbeddedKafka(tmp_path / "data") as server:
        lab = Lab(database, server.bootstrap, Settings(topic_prefix=prefix, session_timeout_s=6.0))
        first = Load(lab, 500)
        with lab.sink():
            lab.until_caught_up()
            server.stop()
            time.sleep(8)
            server.start()
            second = Load(lab, 500)
            lab.until_caught_up(90)
    assert lab.value("SELECT count(*) FROM event_log WHERE status = 'done'") == 1_000
    assert lab.value("SELECT count(*) FROM rajada.trace") == 2 * 1_000
    assert lab.value("SELECT sum(occurrences) FROM agent_inbox_items") == first.alerts + second.alerts
