"""How the page says things: ages, countdowns, sizes, masked phones, the bars of a small chart (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_SHOWN: Final = 2
"""Digits of a phone at either end that tell people apart and nobody who they are."""

TONES: Final[dict[str, str]] = {
    **dict.fromkeys(("done", "sent", "resolved", "connected", "good"), "good"),
    **dict.fromkeys(("running", "processing", "sending", "frozen", "begin"), "busy"),
    **dict.fromkeys(
        ("held", "failed", "ack", "warn", "retry", "stop", "media", "lost", "stopped", "deprovisioning"),
        "warn",
    ),
    **dict.fromkeys(("dead", "open", "provisioning_failed"), "bad"),
}
"""State → how it is coloured; the word always stands beside the colour."""


def tone(state: str | None) -> str:
    """The class of a state's mark."""
    return TONES.get(state or "", "plain")


def phone(text: str | None, sees: bool) -> str:
    """A phone as a viewer may see it: of a masked one the country's two digits and the last two stay."""
    if not text:
        return ""
    if sees:
        return text
    digits = [letter for letter in text if letter.isdigit()]
    if len(digits) < 8:
        return "•••"
    sign = "+" if text.lstrip().startswith("+") else ""
    return f"{sign}{''.join(digits[:_SHOWN])}•••••{''.join(digits[-_SHOWN:])}"


def span(ms: float) -> str:
    """How long, in two units at most: 0.8 s, 12 s, 2 min 5 s, 3 h 10 min, 4 d."""
    ms = max(0.0, ms)
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    seconds = int(ms // 1000)
    for length, unit, smaller, small in _UNITS:
        if seconds >= length:
            rest = seconds % length // smaller
            return f"{seconds // length} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


def age(at_ms: float, now_ms: float) -> str:
    """How long ago."""
    return "now" if now_ms - at_ms < 1_000 else f"{span(now_ms - at_ms)} ago"


def countdown(at_ms: float, now_ms: float) -> str:
    """How long it takes until a moment; `due` once it has come."""
    return "due" if at_ms <= now_ms else span(at_ms - now_ms)


def size(count: int) -> str:
    """Bytes for people."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_SIZES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_SIZES[unit]}"


def iso(at_ms: float) -> str:
    """For `<time datetime>`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def clock(at_ms: float, now_ms: float) -> str:
    """The server's local time; with its date when that is not today's."""
    at, now = (datetime.fromtimestamp(ms / 1000, UTC).astimezone() for ms in (at_ms, now_ms))
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def short(id_: str | None) -> str:
    """The first part of an id, which people tell it by; the whole one stands in the link."""
    return (id_ or "")[:8]


@dataclass(frozen=True, slots=True)
class Bar:
    """A column of the chart, in its units: 10 wide, 40 high."""

    x: int
    y: float
    height: float


def bars(counts: Sequence[int]) -> list[Bar]:
    """The columns; the highest one fills the chart, and one that is not empty can be seen."""
    highest = max(counts, default=0)
    if not highest:
        return []
    heights = [max(40 * count / highest, 1.5 if count else 0.0) for count in counts]
    return [Bar(10 * index, round(40 - height, 2), round(height, 2)) for index, height in enumerate(heights)]
