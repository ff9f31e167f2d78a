"""What a record says of its way through the delay topics, and who comes back for an hour (pure).

A record that a newer version wrote can't be read yet: during a rolling upgrade a reader that knows it may
come. So it is tried again every minute for an hour, whichever topic of ours it is in, and is dead only then
(docs/schemas.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from schemas.dead import Header, Origin
from schemas.topic_names import CONTROL, DELAY, GROUP_LINKS, JOBS, OUTCOMES, SOURCE

DUE_AT: Final = "due-at"
"""Header: when the record may reach where it goes; decimal Unix ms."""
ORIGINAL_TIMESTAMP: Final = "original-timestamp"
"""Header: timestamp of the record that was delayed first; decimal Unix ms. A delay topic's own timestamps
are those of the append, which the wait is counted from."""
FORWARD_TO: Final = "forward-to"
"""Header: the topic that a record goes to when it is due, without prefix; none: `dispatch.jobs`."""
UNKNOWN_SINCE: Final = "unknown-since"
"""Header: when this record was met first and nobody knew its schema; decimal Unix ms."""

FORWARDED: Final = (JOBS, SOURCE, GROUP_LINKS, CONTROL, OUTCOMES)
"""The topics that the delays lead to: all that are read by us and partitioned alike."""

WAITS_IN: Final = f"{DELAY}.1m"
"""Where a record of an unknown version waits for its next try."""
EVERY_MS: Final = 60_000
FOR_MS: Final = 3_600_000
LARGEST: Final = 4 * 1024 * 1024 - 16 * 1024
"""Bytes of a record that more headers can be put on: above it no topic of ours might take it again."""

_DECIMAL: Final = re.compile(rb"[0-9]{1,15}")
"""Up to the year 33658: what has more digits is no time in ms, but perhaps one in ns."""


class Sized(Origin, Protocol):
    """A record with its bytes."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""


def time_in(value: bytes | None) -> int | None:
    """The time in a header, Unix ms; None when it is no decimal number of at most 15 digits."""
    return int(value) if value is not None and _DECIMAL.fullmatch(value) else None


def headers_for(
    due_ms: int, headers: Sequence[Header], original_timestamp_ms: int, to: str = JOBS
) -> list[Header]:
    """The headers of a record that shall be delayed: those it had, and each of ours exactly once.

    A record that is delayed again gets the new due time in place of the old one, and keeps the timestamp
    of its first original if that can be read. `to` is one of FORWARDED.
    """
    first = next((time_in(value) for name, value in headers if name == ORIGINAL_TIMESTAMP), None)
    kept = [one for one in headers if one[0] not in (DUE_AT, ORIGINAL_TIMESTAMP, FORWARD_TO)]
    original_ms = original_timestamp_ms if first is None else first
    return [
        *kept,
        (DUE_AT, b"%d" % max(due_ms, 0)),
        (ORIGINAL_TIMESTAMP, b"%d" % max(original_ms, 0)),
        *([] if to == JOBS else [(FORWARD_TO, to.encode())]),
    ]


def goes_to(headers: Sequence[Header]) -> str | None:
    """Where a delayed record goes when it is due; None: its headers name no topic that it may go to.

    Anybody can write a delay topic: a record leads into topics of ours that are read, and nowhere else.
    """
    named = {value for name, value in headers if name == FORWARD_TO}
    if not named:
        return JOBS
    (first, *others) = named
    found = (first or b"").decode(errors="replace")
    return found if not others and found in FORWARDED else None


def has_room(record: Sized) -> bool:
    """Whether a record can be sent again with headers that it did not have."""
    had = sum(len(name) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + had <= LARGEST


def tried_again(
    record: Sized, to: str, now_ms: int, also: Sequence[Header] = ()
) -> tuple[str, list[Header]] | None:
    """Where a record of an unknown version waits to come back to `to`, and its headers there.

    None: its hour is over, or it is too large to be sent again. `also` are headers that it lacks.
    """
    since = next((value for name, value in record.headers if name == UNKNOWN_SINCE), None)
    since_ms = time_in(since)
    # in the future it would never be over
    since_ms = now_ms if since_ms is None else min(since_ms, now_ms)
    if now_ms - since_ms >= FOR_MS or not has_room(record):
        return None
    kept = [one for one in record.headers if one[0] != UNKNOWN_SINCE]
    headers = [*kept, *also, (UNKNOWN_SINCE, b"%d" % since_ms)]
    return WAITS_IN, headers_for(now_ms + EVERY_MS, headers, record.timestamp, to)
