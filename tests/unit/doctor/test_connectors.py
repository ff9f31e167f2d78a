"""What the doctor says of Debezium's connectors, and of a relay beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db.replication import SlotStatus
from ops.cdc.condition import Seen
from ops.cdc.rest import Condition, ConnectAway
from ops.doctor.connectors import MB, away, beside, verdict

SLOT = SlotStatus("pgoutput", "crm", True, "reserved", 1_000, 2 * MB, 3 * MB)
WELL = Seen("one_dispatch", "ai_agent.dispatch_requested", Condition("RUNNING", "", 1), SLOT, 1_000, 2.0, 3.0)


def test_a_connector_that_is_well_is_told_with_how_far_it_is() -> None:
    said = verdict(WELL)
    assert said.level == "ok" and said.found == "one_dispatch runs, 3.0 MB behind, last sign of life 2 s ago"


def test_one_that_is_not_is_a_failure_with_what_to_do() -> None:
    said = verdict(replace(WELL, slot=None))
    assert (said.level, said.found) == ("fail", "one_dispatch has lost its slot: it is gone")
    assert "rajada connector register" in said.advice


@pytest.mark.parametrize(
    ("slot", "told"),
    [(None, None), (SLOT, "comes twice"), (replace(SLOT, active=False), "WAL is kept for it")],
)
def test_a_relay_beside_debezium_is_told(slot: SlotStatus | None, told: str | None) -> None:
    assert [told in one.found and one.level == "warn" for one in beside("rajada", slot) if told] == (
        [True] if told else []
    )


@pytest.mark.parametrize(
    ("relays", "level", "advice"),
    [
        (None, "fail", "start it"),
        (replace(SLOT, active=False), "fail", "start it"),
        (SLOT, "warn", "connector remove --without-connect"),
    ],
)
def test_kafka_connect_away_is_bad_unless_the_relay_publishes(
    relays: SlotStatus | None, level: str, advice: str
) -> None:
    said = away(ConnectAway("start it"), relays)
    assert said.level == level and advice in said.advice
