"""Workers join, are killed, terminated and stopped: nothing is lost, and every key's state is right.

Longer and in all shapes: `python -m chaos.transport --series 20 --seconds 30`.
"""

from __future__ import annotations

import pytest

from chaos.plan import Plan
from chaos.transport import own_broker, run
from streams.transport import EXIT_CODE

from .transport_lab import PARTITIONS, exit_code, laboratory


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
