"""Reads the facts of due windows and decides: the edge and the pure function put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from schemas.masking import masked
from settings import Settings
from streams.decide import Decision, Fail, LookAgain, decide
from streams.facts import ReadFailure
from streams.question import Facts, Question, Rules
from streams.skew import ClockSkew
from telemetry.distribution import Distribution

LOOK_AGAIN_MS: Final = 2_000
"""A window whose facts did not come in time is looked at again after this."""


class Reads(Protocol):
    """Reads the facts of questions; see `streams.facts.FactReader.read`."""

    async def read(self, questions: Sequence[Question]) -> list[Facts | ReadFailure]:
        """The facts of each question, in order, or why they can't be read; raises DatabaseAway."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class DatabaseDecider:
    """Decides on the database's state at the moment of asking (spec/dispatch.md, step 4)."""

    def __init__(
        self,
        reader: Reads,
        settings: Settings,
        wall_ms: Callable[[], int] = _wall_ms,
        on_skew: Callable[[float], None] = lambda skew_ms: None,
    ) -> None:
        """`on_skew` is told, with each reading, by how many ms the database's clock is ahead of `wall_ms`."""
        self._reader = reader
        self._wall_ms = wall_ms
        self._on_skew = on_skew
        self.skew = ClockSkew()
        self.took = Distribution()
        """Seconds of one question to the database, for all windows that are due."""
        self._rules = Rules(
            allowlist_ttl_days=settings.allowlist_ttl_days,
            media_recheck_ms=settings.media_recheck_ms,
            event_max_age_s=settings.event_max_age_s,
        )

    async def decide(self, questions: Sequence[Question]) -> list[Decision]:
        """One decision a question, in order; raises DatabaseAway when none can be made now."""
        asked_ms, asked_s = self._wall_ms(), time.monotonic()
        answers = await self._reader.read(questions)
        self.took.observe(time.monotonic() - asked_s)
        read = next((answer for answer in answers if isinstance(answer, Facts)), None)
        if read is not None:
            self.skew.observe(read.db_now_ms, asked_ms, self._wall_ms())
            self._on_skew(self.skew.ms)
        decisions: list[Decision] = []
        for question, answer in zip(questions, answers, strict=True):
            if not isinstance(answer, ReadFailure):
                decisions.append(_without_personal_data(decide(question, answer, self._rules)))
            elif answer.spends_attempt:
                decisions.append(Fail(error_class=answer.error_class, message=masked(answer.message)))
            else:
                decisions.append(LookAgain(in_ms=LOOK_AGAIN_MS, error_class=answer.error_class))
        return decisions


def _without_personal_data(decision: Decision) -> Decision:
    if isinstance(decision, Fail):
        return replace(decision, message=masked(decision.message))
    return decision
