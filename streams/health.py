"""What a worker sees of the machine room and nobody else can: told to the platform by outcomes.

The sink writes them (`sinks.raised.conditions_of`): an alert opens with the first word about a condition,
lasts while it is repeated, and resolves itself with the word that it is over, or when nobody speaks of it any
more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from schemas import alert_texts
from schemas.codec import encode_outcome
from schemas.records import Alert, Outcome
from schemas.topic_names import OUTCOMES
from settings import Language
from streams.identifiers import NIL
from streams.ports import Item, Outbox
from streams.skew import ALARM_MS, ClockSkew
from streams.steady_clock import SteadyClock
from streams.sweep_rounds import SweepRounds

EVERY_S: Final = 60.0
STAGE: Final = "health"

Look = Callable[[], Alert | None]
"""What is wrong now; None: all is well."""


def conditions(
    skew: ClockSkew, clock: SteadyClock, sweep: SweepRounds, language: Language
) -> dict[str, Look]:
    """What a worker looks at. Its machine's clock is wrong, too, while ours does not follow it."""

    def clocks() -> Alert | None:
        ahead_ms = skew.ms + clock.apart_ms
        return alert_texts.clock_skew(round(ahead_ms), language) if abs(ahead_ms) > ALARM_MS else None

    def sweeping() -> Alert | None:
        return alert_texts.sweep_held(sweep.held_by, language) if sweep.held_by is not None else None

    return {"clock_skew": clocks, "sweep_held": sweeping}


class Health:
    """Looks at conditions by name and tells what lasts and what is over.

    Args:
        looks: by the condition's name.
        outbox: where outcomes go.
        wall_ms: Unix ms.
        who: whose view it is; unique among the workers.
    """

    def __init__(
        self, looks: Mapping[str, Look], outbox: Outbox, wall_ms: Callable[[], int], who: str
    ) -> None:
        self._looks = looks
        self._outbox = outbox
        self._wall_ms = wall_ms
        self._who = who
        self._told: set[str] = set()

    async def run(self) -> None:
        """Look every minute, for ever."""
        while True:
            await asyncio.sleep(EVERY_S)
            if items := self.items():
                self._outbox.send(OUTCOMES, items)

    def items(self) -> list[Item]:
        """What there is to tell now."""
        now_ms = self._wall_ms()
        items: list[Item] = []
        for name, look in self._looks.items():
            alert = look()
            if alert is None and name not in self._told:
                continue
            (self._told.discard if alert is None else self._told.add)(name)
            outcome = Outcome(
                organization_id=alert_texts.PLATFORM,
                at_ms=now_ms,
                stage=STAGE,
                events=(),
                status="done" if alert is None else "pending",
                outcome=name,
                facts=msgspec.json.encode({"by": self._who}).decode(),
                alert=alert,
            )
            # one key for all: the words about a condition stay in their order
            items.append((f"{NIL}:{self._who}".encode(), encode_outcome(outcome), -1, None))
        return items
