"""Moments as people write and read them: `2h`, `3d`, ISO times; local time with its offset."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN: Final = re.compile(r"(\d{1,6})([smhdw])")


def moment(text: str, now: datetime) -> datetime:
    """When `text` means: so long before `now` (30s, 90m, 2h, 3d, 1w), or an ISO date or time.

    A time without an offset is local. Raises ValueError, whose message says what is understood.
    """
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        return now - timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: 30s, 90m, 2h, 3d, 1w ago, or as 2026-07-24T12:00 (local), …Z or …-03:00"
        ) from None
    return found if found.tzinfo is not None else found.astimezone()


def now_ms() -> int:
    """The wall clock, Unix ms."""
    return time.time_ns() // 1_000_000


def local(ms: float, zone: tzinfo | None = None) -> datetime:
    """A moment in Unix ms, in the local zone (or the one that is given)."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone)


def clock(at: datetime) -> str:
    """12:03:04.120: with milliseconds, since bursts are told apart by them."""
    return at.strftime("%H:%M:%S.") + f"{at.microsecond // 1000:03d}"


def day(at: datetime) -> str:
    """2026-07-24 (UTC-03:00)."""
    offset = at.strftime("%z")
    return f"{at:%Y-%m-%d} (UTC{offset[:3]}:{offset[3:5]})"


def span(ms: float) -> str:
    """How long something takes, in two units at most: 850 ms, 8.0 s, 2 min 5 s, 3 h 10 min, 4 d."""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for unit, length, smaller, part in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"
