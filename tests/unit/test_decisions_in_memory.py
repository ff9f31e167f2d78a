"""The decision scenarios without any database: rows read in plain Python, decided by the pure function.

`tests/integration/test_decisions.py` decides the same scenarios on what a real Postgres tells, and holds both
against each other; this one is for whoever changes a rule and wants an answer at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from streams.decide import decide
from streams.question import Rules
from streams.windows import WindowRule
from tests.integration.memory_facts import facts_in_memory
from tests.integration.scenarios import Scenario, claimed, compare, tables_of
from tests.integration.test_decisions import (
    ONE_PER_CONVERSATION,
    SCENARIOS,
    _closed,
    _open_windows,
    _question,
    _read,
    _windows,
)

Key = tuple[str, str, str]


class OneLength:
    """Every conversation has one window."""

    async def lookup(self, keys: Sequence[Key]) -> dict[Key, WindowRule]:
        """See `streams.ports.Lengths`."""
        return dict.fromkeys(keys, ONE_PER_CONVERSATION)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.id for scenario in SCENARIOS])
def test_scenario_without_a_database(scenario: Scenario) -> None:
    base_ms = time.time_ns() // 1_000_000
    tables = tables_of(scenario, base_ms)
    ridden = _open_windows(scenario, tables)
    events, invalid = _read(claimed(scenario, tables, base_ms), base_ms)
    windows = asyncio.run(_windows(events, ridden, OneLength(), "one per conversation"))
    rules = Rules(allowlist_ttl_days=scenario.ttl_days)
    decided = []
    for key, window in windows:
        question = _question(key, window)
        decision = decide(question, facts_in_memory(tables, question, time.time() * 1000), rules)
        decided.append(_closed(key, window, decision))
    agreement = compare(scenario, decided, invalid)
    assert not agreement.disagreements, "\n".join([scenario.title, *agreement.disagreements])
