"""Dead letters for the page: listed, one decoded, requeued, dropped. By the code of `rajada dlq`."""

from __future__ import annotations

import heapq
import threading
from typing import Final

import msgspec

from db.closed_letters import Closed
from ops.dlq import requeue as requeueing
from ops.dlq.desk import Desk
from ops.dlq.drop import drop as drop_letters
from ops.dlq.groups import Groups
from ops.dlq.plan import plan
from ops.dlq.selection import Filter
from ops.dlq.show import content_text, headers_of_letter, key_of, way
from ops.reasons import reason as known_reason
from ops.sender import Sender
from schemas.masking import masked
from schemas.topic_names import DEAD, PARKING
from settings import Settings
from streams import letters as dead
from web.pages.desk import Declined, Missing
from web.pages.told import Actor, Letter, Letters, Opened

MOST_LOOKED_AT: Final = 50_000
"""Records of a topic that are looked through for a list, the newest of each partition."""
GROUPS: Final = 20


def listed(
    settings: Settings, whose: str | None, *, parking: bool, closed: bool, reason: str | None, most: int
) -> Letters:
    """The newest letters, and all that were looked through in groups. Raises OpsError."""
    chosen = Filter(
        topic=PARKING if parking else DEAD,
        reasons=(reason,) if reason else (),
        organizations=(whose,) if whose is not None else (),
        closed=closed,
    )
    groups, newest = Groups(), list[tuple[int, str, Letter]]()
    with Desk(settings, chosen.topic, rows_needed=True) as desk:
        ranges = desk.ranges(chosen)
        each = MOST_LOOKED_AT // max(1, len(ranges))
        bounded = {one: (max(start, end - each), end) for one, (start, end) in ranges.items()}
        for page in desk.pages(chosen, bounded):
            for one in page.letters:
                state = page.closed.get((one.place.partition, one.place.offset))
                groups.add(one, closed=state is not None)
                put = heapq.heappushpop if len(newest) >= most else heapq.heappush
                put(newest, (one.at_ms, str(one.place), _letter(one, state)))
    note = None if bounded == ranges else f"Only the newest {MOST_LOOKED_AT:,} records were looked through."
    told = [(group.values[0], group.values[1], group.letters) for group in groups.sorted()[:GROUPS]]
    return Letters([letter for *_, letter in sorted(newest, reverse=True)], groups.letters, told, note)


def opened(settings: Settings, whose: str | None, place: str, *, unmasked: bool) -> Opened:
    """One letter, decoded. Raises Missing, OpsError."""
    chosen = _at(place, whose, closed=True)
    with Desk(settings, chosen.topic, rows_needed=True) as desk:
        ranges = desk.ranges(chosen)
        found = [
            (one, page.closed.get((one.place.partition, one.place.offset)))
            for page in desk.pages(chosen, ranges)
            for one in page.letters
        ]
        if not found:
            raise Missing(f"There is no letter {place}.")
        letter, state = found[0]
        goes = "; ".join(plan(desk, msgspec.structs.replace(chosen, closed=False), ranges).lines())
    known = known_reason(letter.reason)
    return Opened(
        letter=_letter(letter, state),
        meaning=known.meaning,
        message=letter.message if unmasked else masked(letter.message),
        key=key_of(letter, unmasked),
        headers=list(headers_of_letter(letter, unmasked)),
        content=content_text(letter, unmasked),
        way=way(letter, state),
        advice=known.advice,
        goes=goes,
    )


def requeue(settings: Settings, actor: Actor, place: str, reason: str) -> str:
    """Send one letter again. Raises Missing, Declined, OpsError."""
    chosen = _at(place, actor.whose, closed=False)
    with Desk(settings, chosen.topic, rows_needed=True, by=actor.id) as desk:
        desk.lock()
        ranges = _open(desk, chosen, place)
        asked = requeueing.Selection(chosen, desk.topic_id, ranges, because=reason or None, letters=1)
        before = requeueing.begun_before(desk, asked)
        stored = before or requeueing.begin(desk, asked)
        run = requeueing.Requeue(
            desk,
            stored,
            Sender(desk.bootstrap, settings),
            None,
            threading.Event(),
            resumed=before is not None,
        )
        result = run.work(lambda progress: None)
    if result.stays:
        raise Declined(f"It stays: {result.stays[0][1]}.")
    if result.progress.parked:
        return f"Letter {place} was requeued too often: it lies in the parking lot now."
    return f"Letter {place} is sent again, by run {result.run}."


def drop(settings: Settings, actor: Actor, place: str, reason: str) -> str:
    """Give one letter up. Raises Missing, Declined, OpsError."""
    chosen = _at(place, actor.whose, closed=False)
    with Desk(settings, chosen.topic, rows_needed=True, by=actor.id) as desk:
        desk.lock()
        ranges = _open(desk, chosen, place)
        dropped, _ = drop_letters(desk, chosen, ranges, reason, threading.Event(), lambda count: None)
    if not dropped:
        raise Declined(f"Letter {place} was settled meanwhile.")
    return f"Letter {place} is given up: {reason}"


def _at(place: str, whose: str | None, *, closed: bool) -> Filter:
    where = dead.place_of(place)
    if where is None:
        raise Missing(f"There is no letter {place}.")
    return Filter(
        topic=where.topic,
        places=((where.partition, where.offset),),
        organizations=(whose,) if whose is not None else (),
        closed=closed,
    )


def _open(desk: Desk, chosen: Filter, place: str) -> dict[int, tuple[int, int]]:
    """Where an open letter lies. Raises Missing, Declined."""
    ranges = desk.ranges(chosen)
    if any(page.letters for page in desk.pages(chosen, ranges)):
        return ranges
    settled = msgspec.structs.replace(chosen, closed=True)
    if any(page.letters for page in desk.pages(settled, ranges)):
        raise Declined(f"Letter {place} was settled before. Nothing was done.")
    raise Missing(f"There is no letter {place}.")


def _letter(letter: dead.Letter, closed: Closed | None) -> Letter:
    return Letter(
        place=str(letter.place),
        at_ms=letter.at_ms,
        reason=letter.reason,
        title=known_reason(letter.reason).title,
        kind=letter.kind,
        stage=letter.stage,
        organization_id=letter.organization_id,
        about=letter.about,
        replays=letter.replays,
        state=closed.how if closed is not None else "open",
    )
