"""Gives dead letters up: they are closed, and who gave up what and why is written down. Kafka keeps them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import uuid5

from db.closed_letters import DroppedRow
from ops.asking import asking
from ops.dlq.desk import Desk, Ranges
from ops.dlq.selection import Filter
from streams.letters import Letter
from streams.requeueing import ORDERS


def drop(
    desk: Desk,
    chosen: Filter,
    ranges: Ranges,
    reason: str,
    stop: threading.Event,
    watch: Callable[[int], None],
) -> tuple[int, bool]:
    """Drop the open letters of a selection; returns how many, and whether it was all of them.

    Page by page in transactions of their own: the same command goes on after an interruption. The lock is
    held. Raises OpsError.
    """
    dropped, by = 0, desk.by
    with asking(desk.url):
        for page in desk.pages(chosen, ranges):
            if stop.is_set():
                return dropped, False
            desk.letters.drop([_row(desk, letter) for letter in page.letters], reason, by)
            dropped += len(page.letters)
            watch(dropped)
    return dropped, True


def _row(desk: Desk, letter: Letter) -> DroppedRow:
    return DroppedRow(
        partition=letter.place.partition,
        offset=letter.place.offset,
        # a record that names nothing of its own is named by its place
        about=letter.about or str(uuid5(ORDERS, f"{desk.topic_id}/{desk.source(letter.place)}")),
        kind="job" if letter.job_id else "event",
        replay=letter.replay,
        organization_id=letter.organization_id,
    )
