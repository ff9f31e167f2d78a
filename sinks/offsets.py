"""`rajada.sink_offsets`: the only truth about how far the sink is (design decision 9).

A row belongs to a topic's id, not its name: a topic that was deleted and made again starts at 0. Rows are
advanced by compare-and-set inside the transaction that writes what the offsets stand for, so a sink that
was frozen and wakes up, or a second one, writes nothing that the first has written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from db.queries import load
from sinks.batch import Move
from sinks.failures import PositionMoved

Database = Connection[TupleRow]


def read_positions(
    database: Database, topic_id: str, topic: str, partitions: Collection[int]
) -> dict[int, int]:
    """The next offset to apply of each partition; a partition seen for the first time stands at 0."""
    with database.transaction():
        values = {"topic_id": topic_id, "topic": topic, "partitions": sorted(partitions)}
        database.execute(load("sink_offsets_open"), values)
        found = database.execute(load("sink_offsets_read"), values).fetchall()
    return {int(partition): int(next_offset) for partition, next_offset in found}


def advance(database: Database, topic_id: str, moves: Sequence[Move]) -> None:
    """Move the offsets, or raise PositionMoved when one is not where it is expected to be.

    To be called first in the transaction; the rows stay locked until its end.
    """
    cursor = database.execute(
        load("sink_offsets_advance"),
        {
            "topic_id": topic_id,
            "partitions": [move.partition for move in moves],
            "expected": [move.expected for move in moves],
            "next": [move.next for move in moves],
        },
    )
    moved = {int(row[0]) for row in cursor.fetchall()}
    stuck = sorted(move.partition for move in moves if move.partition not in moved)
    if stuck:
        raise PositionMoved(f"another sink has moved the partitions {stuck}; reading the position anew")
