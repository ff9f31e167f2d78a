"""Dead letters that are settled: requeued, parked, dropped or erased. The letters stay in Kafka.

A letter is named by its place: Kafka's id of the topic, partition and offset. So those of a topic that was
made anew are not mistaken for others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from db.queries import load
from db.runs import Connection

How = Literal["requeued", "parked", "dropped", "erased"]


@dataclass(frozen=True, slots=True)
class Closed:
    """What was done with a letter, by whom and when; `replay` is the number of the run, 0 = no run."""

    how: How
    replay: int
    closed_by: str | None
    closed_at: datetime


class ClosedRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A letter to be closed; `about` is the id of its event or job."""

    partition: int
    offset: int
    about: str | None = None


class DroppedRow(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A letter to be given up; `replay` is the number that it died with."""

    partition: int
    offset: int
    about: str
    kind: Literal["event", "job"]
    replay: int
    organization_id: str | None = None


class ClosedLetters:
    """The closed letters of one topic, by its id. Every method may raise psycopg.Error."""

    def __init__(self, connection: Connection, topic: str, topic_id: str) -> None:
        self._connection = connection
        self._topic = {"topic": topic, "topic_id": topic_id}

    def among(self, partition: int, first: int, below: int) -> dict[int, Closed]:
        """Offset → what was done with it, of the letters in [first, below) of a partition."""
        values = {
            "topic_id": self._topic["topic_id"],
            "partition": partition,
            "first": first,
            "below": below,
        }
        rows = self._connection.execute(load("letters_closed"), values).fetchall()
        return {int(str(row[0])): Closed(*row[1:]) for row in rows}  # type: ignore[arg-type]  # the file says which

    def close(self, rows: Sequence[ClosedRow], how: How, by: str | None, replay: int = 0) -> None:
        """Close letters."""
        if rows:
            values = {"how": how, "replay": replay, "closed_by": by, "rows": _json(rows)}
            self._connection.execute(load("letters_close"), {**self._topic, **values})

    def drop(self, rows: Sequence[DroppedRow], reason: str, by: str | None) -> None:
        """Give letters up, each written down once."""
        if rows:
            values = {"reason": reason, "dropped_by": by, "rows": _json(rows)}
            self._connection.execute(load("letters_drop"), {**self._topic, **values})


def replays_of(connection: Connection, ids: Collection[str]) -> Mapping[str, int]:
    """How often events and jobs were requeued; those that never were are left out."""
    if not ids:
        return {}
    asked = {"ids": [UUID(one) for one in sorted(ids)]}
    rows = connection.execute(load("letters_replays"), asked).fetchall()
    return {str(about): int(str(count)) for about, count in rows}


def _json(rows: Sequence[msgspec.Struct]) -> str:
    return msgspec.json.encode(rows).decode()
