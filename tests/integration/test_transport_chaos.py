"""Workers join, are killed, terminated and stopped: nothing is lost, and every key's state is right.

Longer and with other seeds: `python -m chaos.transport --seed N --seconds 60`.
"""

from __future__ import annotations

import pytest

from chaos.transport import Plan, run


@pytest.mark.alone
def test_a_short_chaos_run_loses_nothing_and_leaves_every_key_right(kafka, prefix, tmp_path):
    plan = Plan(kafka, seed=5, seconds=16, tables=2, decode_ms=0.2, name=f"{prefix}chaos")
    findings = run(plan, tmp_path)
    assert findings.violations == [], findings
    assert findings.records == pytest.approx(plan.rate * plan.seconds * 9 / 8, rel=0.01)
    assert findings.workers >= 3
    assert findings.longest_pause_s < 30
