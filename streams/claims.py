"""Whose an event is until the sink has told Postgres: for ids that somebody produced by hand twice (pure).

An id belongs to one contact. Where the log has its row, or a job names it, the database says whose it is
(`Facts.of_others`); of an id that is on its way there nobody else knows. One worker's memory: the same id in
partitions of two workers, within the moment that the sink needs, is told apart by the sink
(`sink_trace.sql`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

MOST: Final = 50_000
"""Ids that are remembered at most: beyond that the oldest are forgotten, whatever the sink has written."""


class Claims:
    """Event id → the key that answered it, and where its outcome stands."""

    def __init__(self) -> None:
        self._claims: OrderedDict[str, tuple[bytes, int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._claims)

    def of_others(self, key: bytes, event_ids: Iterable[str]) -> bool:
        """Whether another contact of the same organization has one of these ids."""
        organization = key[:36]
        for event_id in event_ids:
            claim = self._claims.get(event_id)
            if claim is not None and claim[0] != key and claim[0][:36] == organization:
                return True
        return False

    def note(self, key: bytes, partition: int, event_ids: Iterable[str], outcome_offset: int = -1) -> None:
        """These events are answered under a key; `outcome_offset` is where that stands, -1 = not sent yet."""
        self._claims.update(dict.fromkeys(event_ids, (key, partition, outcome_offset)))
        while len(self._claims) > MOST:
            self._claims.popitem(last=False)

    def forget_written(self, written_below: Callable[[int], int]) -> None:
        """Drop the oldest claims whose outcome the sink has written: the database knows them now."""
        while self._claims:
            event_id, (_, partition, offset) = next(iter(self._claims.items()))
            if not 0 <= offset < written_below(partition):
                return
            del self._claims[event_id]

    def clear(self) -> None:
        """The partitions go, and with them what was claimed in them."""
        self._claims.clear()
