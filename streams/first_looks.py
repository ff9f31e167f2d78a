"""A shadow looks twice: when a window opens and when it closes (docs/shadow.md).

An old drain decides when it finds an event, Rajada when the window has ended. In between the old drain's own
job may have run and changed what decisions are made of: handed the conversation to a person, silenced the
agent. So a shadow asks at once, too, and the decision carries what it would have been then. Where both are
the same, nothing that was changed meanwhile explains a difference.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from streams.contact import identity
from streams.decide import Decision, Enqueue, Stop, WaitForMedia
from streams.decider import Reads
from streams.facts import ReadFailure
from streams.ports import Decider
from streams.question import AskedEvent, DatabaseAway, Facts, Question

log = structlog.get_logger(__name__)

FIRST_LOOK: Final = "first_look:"
"""How the warning begins that tells what the decision would have been when the window opened."""
WAITED: Final = "waited_for_media"
"""The warning of a window that stayed open for a file to be read."""
JOB: Final = "job"
BATCH: Final = 500
MOST: Final = 100_000
"""First looks that are kept, and questions that wait: the oldest are given up, their windows go without."""


class WithoutOutcomes:
    """Reads facts as if no event of the windows had an outcome yet: a shadow has no stop 0.

    The old drain gives every event its outcome, so stop 0 would take them all.
    """

    def __init__(self, reader: Reads) -> None:
        self._reader = reader

    async def read(self, questions: Sequence[Question]) -> list[Facts | ReadFailure]:
        """As of the reader; raises DatabaseAway."""
        answers = await self._reader.read(questions)
        return [replace(one, known={}) if isinstance(one, Facts) else one for one in answers]


class FirstLooks:
    """Decides twice (see `streams.ports.Decider`): `ask` when a window opens, `decide` when it is due."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._waiting: OrderedDict[str, Question] = OrderedDict()
        self._seen: OrderedDict[str, str] = OrderedDict()
        self._waited: set[str] = set()
        self._wake = asyncio.Event()

    def ask(self, question: Question) -> None:
        """A window has opened."""
        # asked as a replay is: stop 5 is about what comes later, and is seen when the window closes
        self._waiting.setdefault(_name(question.events[0]), replace(question, again=True))
        if len(self._waiting) > MOST:
            self._waiting.popitem(last=False)
        self._wake.set()

    async def run(self) -> None:
        """Look at what opened, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self.look()

    async def look(self) -> None:
        """Look at the windows that opened first; what can't be read now goes without a first look."""
        names = list(self._waiting)[:BATCH]
        questions = [self._waiting.pop(name) for name in names]
        try:
            decisions = await self._decider.decide(questions)
        except DatabaseAway as error:
            log.warning("no_first_look", windows=len(questions), error=str(error))
            return
        for name, decision in zip(names, decisions, strict=True):
            told = _told(decision)
            if told is not None:
                self._seen[name] = told
        while len(self._seen) > MOST:
            self._seen.popitem(last=False)

    async def decide(self, questions: Sequence[Question]) -> list[Decision]:
        """One decision a question, with what it would have been at first; raises DatabaseAway."""
        decisions = await self._decider.decide(questions)
        return [self._with_first(one, two) for one, two in zip(questions, decisions, strict=True)]

    def _with_first(self, question: Question, decision: Decision) -> Decision:
        name = _name(question.events[0])
        if isinstance(decision, WaitForMedia):
            self._waited.add(name)
        if not isinstance(decision, (Enqueue, Stop)):
            return decision
        warnings = list(decision.warnings)
        if name in self._waited:
            self._waited.discard(name)
            warnings.append(WAITED)
        first = self._seen.pop(name, None)
        if first is not None:
            warnings.append(f"{FIRST_LOOK}{first}")
        return replace(decision, warnings=tuple(warnings))


def _name(event: AskedEvent) -> str:
    return identity(event.event_id, event.replay)


def _told(decision: Decision) -> str | None:
    """`job`, the reason of a stop, or None when nothing was decided."""
    if isinstance(decision, Stop):
        return decision.reason
    # a file that is still being read stops nobody for good
    return JOB if isinstance(decision, (Enqueue, WaitForMedia)) else None
