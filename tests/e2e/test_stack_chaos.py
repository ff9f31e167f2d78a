"""The whole native stack under chaos, with seeds that once found something or meet many kinds of faults.

Longer, with a random seed: `make chaos`. What is driven and audited: docs/chaos.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from chaos.stack.plan import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(1_800)]

ROOT = Path(__file__).parents[2]

RUNS = {
    "processes die, stop, join and leave": (1, 90, ["kill", "term", "stop", "join", "leave"]),
    "disasters and full disks": (2, 110, ["restore", "retention", "slot", "postgres-disk", "broker-disk"]),
    "clocks are set while messages come": (4, 60, ["clock", "kill"]),
    "clocks are set while brokers go": (
        5, 120,
        ["restore", "clock", "slow", "brokers", "controller", "postgres-kill", "engine-hang", "engine-drop",
         "cdc-disorder", "cdc-late"],
    ),
    "all kinds, mixed": (7, 180, list(KINDS)),
}  # fmt: skip
"""What it is about → seed, seconds of load, kinds."""


@pytest.mark.parametrize("about", RUNS)
def test_every_event_has_one_end_and_every_effect_is_had_once(about: str, tmp_path: Path) -> None:
    seed, seconds, kinds = RUNS[about]
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "chaos.stack", f"--seed={seed}", f"--seconds={seconds}"]
    command += [f"--faults={','.join(kinds)}", f"--report={report}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6_000:]
    told = orjson.loads(report.read_bytes())
    assert told["findings"] == []
    assert sum(told["made"].values()) >= 5, "hardly anything was done"
