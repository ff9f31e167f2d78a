"""What is wrong with a connector, told from its state, its slot and what Kafka has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db.replication import SlotStatus
from ops.cdc.condition import Seen, is_gap
from ops.cdc.rest import Condition

SLOT = SlotStatus("pgoutput", "crm", True, "reserved", 1_000, 0, 0)
WELL = Seen("one_dispatch", "ai_agent.dispatch_requested", Condition("RUNNING", "", 1), SLOT, 1_000, 1.0, 0.5)


@pytest.mark.parametrize(
    ("slot", "position", "gap"),
    [
        (SLOT, 1_000, False),
        (SLOT, 1_001, False),
        (SLOT, None, False),
        (SLOT, 999, True),
        (replace(SLOT, wal_status="lost"), 1_000, True),
        (replace(SLOT, confirmed_flush_lsn=None), 5, False),
        (None, 1_000, True),
        (None, None, True),
    ],
)
def test_a_gap_is_a_slot_that_begins_after_what_kafka_has(
    slot: SlotStatus | None, position: int | None, gap: bool
) -> None:
    assert is_gap(slot, position) is gap


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (WELL, ""),
        (replace(WELL, condition=Condition("ABSENT")), "not registered"),
        (replace(WELL, slot=None), "lost its slot"),
        (replace(WELL, slot=replace(SLOT, wal_status="lost")), "max_slot_wal_keep_size"),
        (replace(WELL, position=999), "made anew"),
        (replace(WELL, condition=Condition("FAILED", "x.RecordTooLargeException: y", 1)), "--pass-refused`"),
        (replace(WELL, condition=Condition("FAILED", "x.Other: y", 1)), "x.Other: y"),
        (replace(WELL, condition=Condition("PAUSED", "", 1)), "paused"),
        (replace(WELL, condition=Condition("STOPPED")), "stopped"),
        (replace(WELL, condition=Condition("RUNNING", "", 0)), "does a worker"),
        (replace(WELL, condition=Condition("UNASSIGNED", "", 1)), "does a worker"),
        (replace(WELL, silent_s=61.0), "no sign of life for 61 s"),
        (replace(WELL, silent_s=61.0, every_s=20.0), ""),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(seen: Seen, told: str) -> None:
    trouble = seen.trouble
    if told:
        assert trouble is not None and told in f"{trouble.found}, {trouble.advice}"
    else:
        assert trouble is None
