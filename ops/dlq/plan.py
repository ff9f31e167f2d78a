"""What a requeue would do, counted before anything is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from db.closed_letters import replays_of
from ops.asking import asking
from ops.dlq.desk import Desk, Ranges
from ops.dlq.groups import Groups
from ops.dlq.selection import Filter
from schemas.topic_names import CONTROL, PARKING
from streams.letters import Letter
from streams.requeueing import Stays, goes_to

PARKED: Final = "parked before: `rajada dlq requeue --parking` sends what lies there"
"""Why one that was closed by parking it isn't taken again: its copy is the one that counts."""


@dataclass(slots=True)
class Plan:
    """Letters of a selection in groups, and where they would go."""

    groups: Groups = field(default_factory=Groups)
    goes: Counter[str] = field(default_factory=Counter)
    """Topic (name without prefix) → letters."""
    stays: Counter[str] = field(default_factory=Counter)
    """Why → letters."""

    @property
    def letters(self) -> int:
        """All that are meant."""
        return self.groups.letters

    def lines(self) -> list[str]:
        """Where they would go, in words."""
        told = []
        for topic, count in self.goes.most_common():
            if topic == CONTROL:
                told.append(f"{count:,} as orders to begin their jobs anew")
            elif topic == PARKING:
                told.append(f"{count:,} into the parking lot: they died after three replays")
            else:
                told.append(f"{count:,} back to {topic}")
        return told + [f"{count:,} stay: {why}" for why, count in self.stays.most_common(5)]


def plan(
    desk: Desk, chosen: Filter, ranges: Ranges, watch: Callable[[int], None] = lambda looked_at: None
) -> Plan:
    """Count a selection and where it would go. Raises OpsError.

    `watch` is told how many records were looked at.
    """
    made, looked_at = Plan(), 0
    with asking(desk.url):
        for page in desk.pages(chosen, ranges):
            known = replays_of(desk.connection, {one.about for one in page.letters if one.about})
            for letter in page.letters:
                closed = page.closed.get((letter.place.partition, letter.place.offset))
                made.groups.add(letter, closed=closed is not None)
                if closed is not None and closed.how == "parked":
                    made.stays[PARKED] += 1
                else:
                    _count(made, letter, max(letter.replays, known.get(letter.about or "", 0)), chosen)
            looked_at += page.looked_at
            watch(looked_at)
    return made


def _count(made: Plan, letter: Letter, replays: int, chosen: Filter) -> None:
    topic = goes_to(letter, replays, park=chosen.topic != PARKING)
    if isinstance(topic, Stays):
        made.stays[topic.why] += 1
    else:
        made.goes[topic] += 1
