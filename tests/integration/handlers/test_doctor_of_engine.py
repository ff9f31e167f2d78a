"""The doctor and a real engine."""

from __future__ import annotations

from ops.doctor.engine import agent_engine
from ops.engine.serving import EngineBeside
from settings import Settings


def test_an_engine_that_is_there_is_well_and_gets_no_turn(engine: EngineBeside) -> None:
    verdict = agent_engine(Settings.model_validate({"agent_engine_url": engine.url}))
    assert (verdict.level, verdict.found) == ("ok", "answers (405)")
    assert engine.requests() == []
