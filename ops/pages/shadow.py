"""What a shadow decided beside the old drain, for the page (docs/shadow.md)."""

from __future__ import annotations

from typing import Final

from ops.moments import now_ms
from ops.shadow.report import Example, Report, report
from ops.shadow.words import WORDS
from settings import Settings
from web.pages.told import Compared, Difference, Shadow

MOST: Final = 5_000
"""Windows that a look compares: it is to be there within a second or two."""
HOUR_MS: Final = 3_600_000


def seen(url: str, bootstrap: str, settings: Settings, whose: str | None, hours: int) -> Shadow:
    """The findings of the last hours. Raises NotFound when no shadow has run; OpsError."""
    since_ms = now_ms() - hours * HOUR_MS
    return told(report(url, bootstrap, settings, since_ms, most=MOST, organization=whose), whose)


def told(found: Report, whose: str | None) -> Shadow:
    """A report as the page has it; what is of the platform is not told to an organization (`whose`)."""
    groups = {
        "the same": found.same,
        "different": found.differences,
        "not comparable": found.not_comparable,
    }
    differences = [
        Difference(
            group,
            name,
            WORDS[name].title,
            WORDS[name].is_,
            WORDS[name].look,
            count,
            [_compared(one) for one in found.examples.get(name, [])],
        )
        for group, counts in groups.items()
        for name, count in counts.items()
    ]
    return Shadow(
        since_ms=found.since_ms,
        until_ms=found.until_ms,
        windows=found.windows,
        events=found.events,
        found=differences,
        behind=found.behind if whose is None else None,
        notes=found.notes,
    )


def _compared(one: Example) -> Compared:
    ours = one.ours if one.first_look in (None, one.ours) else f"{one.ours} (at first: {one.first_look})"
    return Compared(one.at_ms, ours, one.theirs, one.contact_id, one.events)
