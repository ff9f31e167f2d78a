"""The alarm when records come too late: an outcome that the sink makes an alert of (pure).

Told in the words of `streams.health`: the alert opens with the first word, lasts while it is repeated, and
resolves itself with the word that it is over.
"""

from __future__ import annotations

from typing import Final

import msgspec

from schemas import alert_texts
from schemas.codec import encode_outcome
from schemas.records import Outcome
from schemas.topic_names import OUTCOMES
from settings import Language
from streams.delays.lateness import BAR_MS, SPAN_S, Figures
from streams.delays.records import Send
from streams.identifiers import NIL

EVERY_S: Final = SPAN_S
"""Each minute is looked at once."""
STAGE: Final = "health"
NAME: Final = "delays_late"
LOOKS: Final = 2
"""Late minutes in a row before anybody is told: a restart makes one."""


class LateAlarm:
    """Looks at the figures of each minute and says what there is to tell.

    Args:
        who: whose view it is; unique among the forwarders.
        language: of the alert.
    """

    def __init__(self, who: str, language: Language = alert_texts.DEFAULT) -> None:
        self._who = who
        self._language = language
        self._late = 0
        self._told = False

    def look(self, figures: Figures, now_ms: int) -> Send | None:
        """The outcome to send, if any: that records come late, or that it is over."""
        self._late = self._late + 1 if figures.p99_ms > BAR_MS else 0
        lasts = self._late >= LOOKS
        if not lasts and not self._told:
            return None
        self._told = lasts
        told = Outcome(
            organization_id=alert_texts.PLATFORM,
            at_ms=now_ms,
            stage=STAGE,
            events=(),
            status="pending" if lasts else "done",
            outcome=NAME,
            facts=msgspec.json.encode({"by": self._who}).decode(),
            alert=alert_texts.delays_late(figures.p99_ms, self._language) if lasts else None,
        )
        # one key for all: the words about a condition stay in their order
        return Send(OUTCOMES, -1, f"{NIL}:{self._who}".encode(), encode_outcome(told), ())
