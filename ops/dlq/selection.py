"""Which dead letters are meant: what an operator can filter by (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from schemas.topic_names import DEAD, PARKING
from streams.letters import Letter, Place, place_of


class Filter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A selection of letters; every part that is given must fit, and within a part one is enough."""

    topic: str = DEAD
    """Name without prefix: the dead letters, or the parking lot."""
    places: tuple[tuple[int, int], ...] = ()
    """Partition and offset."""
    reasons: tuple[str, ...] = ()
    """Names, with * and ? as wild cards."""
    stages: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    organizations: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Of events and jobs."""
    headers: tuple[tuple[str, str], ...] = ()
    """All of them must fit; * and ? are wild cards of the value."""
    since_ms: int | None = None
    """Died at this moment or later, Unix ms."""
    until_ms: int | None = None
    """Died before this moment, Unix ms."""
    closed: bool = False
    """Also those that were requeued or dropped before."""

    def takes(self, letter: Letter) -> bool:
        """Whether a letter is meant; whether it is still open is for others to say."""
        return (
            (self.since_ms is None or letter.at_ms >= self.since_ms)
            and (self.until_ms is None or letter.at_ms < self.until_ms)
            and (not self.places or (letter.place.partition, letter.place.offset) in self.places)
            and (not self.reasons or any(fnmatchcase(letter.reason, one) for one in self.reasons))
            and (not self.stages or letter.stage in self.stages)
            and all(fnmatchcase(letter.told.get(name, ""), value) for name, value in self.headers)
            and (not self.ids or letter.event_id in self.ids or letter.job_id in self.ids)
            and (not self.organizations or letter.organization_id in self.organizations)
            and (not self.kinds or any(fnmatchcase(letter.kind, one) for one in self.kinds))
        )

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it down."""
        return self == Filter(topic=self.topic, closed=self.closed)

    def words(self) -> str:
        """The selection in words, for people."""
        parts = [
            *_part("reason", self.reasons),
            *_part("stage", self.stages),
            *_part("kind", self.kinds),
            *_part("organization", self.organizations),
            *_part("id", self.ids),
            *(f"header {name}={value}" for name, value in self.headers),
        ]
        if self.places:
            parts.insert(0, ", ".join(str(Place(self.topic, *place)) for place in self.places))
        return "; ".join(parts) or "all"


def _part(name: str, values: Sequence[str]) -> list[str]:
    return [f"{name} {' or '.join(values)}"] if values else []


class WrongSelection(ValueError):
    """What was asked for can't be meant; the message says why."""


def places_of(texts: Iterable[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The topic and the places that texts such as dead/3/17 name; raises WrongSelection."""
    topics, places = set(), []
    for text in texts:
        place = place_of(text)
        if place is None:
            raise WrongSelection(f"{text!r} is no place of a letter; write it as dead/3/17 or parking/0/5")
        topics.add(place.topic)
        places.append((place.partition, place.offset))
    if len(topics) > 1:
        raise WrongSelection("name places of dead and of parking in commands of their own")
    return (topics.pop() if topics else DEAD), tuple(dict.fromkeys(places))


def header_of(text: str) -> tuple[str, str]:
    """Name and value of NAME=VALUE; raises WrongSelection."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise WrongSelection(f"{text!r} is no NAME=VALUE")
    return name, value


def short(topic: str) -> str:
    """How people name one of the two topics."""
    return "parking" if topic == PARKING else "dead"
