"""Workers join, are killed, terminated and stopped: nothing is lost, and every key's state is right.

Longer and in all shapes: `python -m chaos.transport --series 20 --seconds 30`.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

import pytest

from chaos.plan import Plan
from chaos.transport import PAUSE_S, own_broker, run
from streams.transport import EXIT_CODE

from .transport_lab import PARTITIONS, exit_code, laboratory

AWAY_S = float(os.environ.get("RAJADA_TEST_AWAY_S", "150"))
"""How long a broker is away in the slow tier."""


@pytest.mark.alone
def test_br_05_a_short_chaos_run_loses_nothing_skips_nothing_and_leaves_every_key_right(
    kafka, prefix, tmp_path
):
    plan = Plan(kafka, seed=5, seconds=16, tables=2, decode_ms=0.2, snapshot=200, name=f"{prefix}chaos")
    findings = run(plan, tmp_path)
    assert findings.violations == [], findings
    assert findings.records == pytest.approx(plan.rate * plan.seconds * 9 / 8, rel=0.01)
    assert findings.workers >= 3
    assert findings.longest_pause_s < 30


@pytest.mark.alone
def test_an_outage_of_the_broker_is_ridden_out_or_ends_the_worker_and_loses_nothing(prefix, tmp_path):
    with own_broker() as (bootstrap, broker):
        plan = Plan(bootstrap, seed=4, seconds=14, broker=True, name=f"{prefix}outage")
        findings = run(plan, tmp_path, broker)
    assert findings.violations == [], findings
    assert findings.details["coverage"]["broker kill"] == 1
    assert findings.records == pytest.approx(plan.rate * plan.seconds * 9 / 8, rel=0.01)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("seed", "partitions", "lookup_ms"), [(1, 6, 0), (2, 24, 300)])
def test_whatever_is_done_to_a_worker_alone_the_others_go_on_in_time(
    kafka, prefix, tmp_path, seed, partitions, lookup_ms
):
    plan = Plan(kafka, seed=seed, seconds=75, rate=400, partitions=partitions, lookup_ms=lookup_ms,
                apart=12, name=f"{prefix}apart")  # fmt: skip
    findings = run(plan, tmp_path)
    assert findings.violations == [], findings
    assert {"kill", "stop"} <= findings.details["coverage"].keys(), "hardly anything was done"
    assert findings.longest_pause_s <= plan.session_s + PAUSE_S


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_on_fausts_own_transport_the_same_runs_are_seen_to_lose(prefix, tmp_path):
    seen = []
    with own_broker() as (bootstrap, _):
        for seed in range(1, 7):
            folder = tmp_path / str(seed)
            folder.mkdir()
            plan = Plan(bootstrap, seed=seed, seconds=24, lookup_ms=300, stock=True, name=f"{prefix}{seed}")
            findings = run(plan, folder)
            seen += [name for name in ("lost", "uncommitted") if getattr(findings, name)]
            if "lost" in seen:
                return
    pytest.fail(f"no run of six lost anything (seen: {seen}): could the audit notice it at all?")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(2 * AWAY_S + 300)
def test_minutes_without_a_broker_are_never_a_silent_idle_and_the_work_goes_on_by_itself(tmp_path):
    with own_broker() as (bootstrap, broker), laboratory(bootstrap, "minutes.", tmp_path) as lab:
        lab.start()
        for first, away in ((0, True), (600, False)):
            producer = lab.producer(log_level=0)
            for i in range(first, first + 600):
                producer.produce(lab.topic, b"x", f"k{i}", i % PARTITIONS)
            producer.flush()
            if away:
                lab.wait_committed()
                broker.kill()
                until = monotonic() + AWAY_S
                while monotonic() < until:
                    sleep(1)
                    lab.workers.supervise()
                told = [worker.log.read_text() for worker in lab.workers.all]
                ended = [worker.process.poll() for worker in lab.workers.all]
                for text, code in zip(told[:-1], ended[:-1], strict=True):
                    assert code == EXIT_CODE, text[-2000:]  # only one that ended itself has a successor
                assert ended[-1] is not None or "alarm: silent" in told[-1] or len(told) > 1, told[-1][-2000:]
                broker.start()
                lab.workers.supervise()
        lab.log.wait_committed(90, patience=90, meanwhile=lab.workers.supervise)
        lab.wait_committed(5)
        assert len(lab.processed()) == 1200


@pytest.mark.alone
def test_a_stop_while_the_broker_is_away_ends_in_time(tmp_path):
    with own_broker() as (bootstrap, broker), laboratory(bootstrap, "away.", tmp_path) as lab:
        worker = lab.start()
        producer = lab.producer(log_level=0)
        for i in range(600):
            producer.produce(lab.topic, b"x", f"k{i}", i % PARTITIONS)
        producer.flush()
        lab.wait_committed()
        broker.kill()
        try:
            worker.process.terminate()
            assert exit_code(worker, 25) in (0, EXIT_CODE)
        finally:
            broker.start()
