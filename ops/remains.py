"""Until when records of a contact lie in topics that nobody can rewrite (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """How long a topic keeps its records."""

    retention_ms: int
    """-1 = without limit."""
    segment_ms: int
    """A segment is closed after so long at most, and goes when its last record is old enough."""
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left somewhere: `until_ms` is the latest moment, Unix ms; None: as `why` says."""

    where: str
    what: str
    until_ms: int | None = None


def remains(
    last_ms: int, kept: Mapping[str, Kept], letters_left: Sequence[str], rows: Mapping[str, int]
) -> list[Remains]:
    """What remains of a contact, and until when at the latest.

    Args:
        last_ms: when the last record about it was written at the latest, Unix ms.
        kept: full topic name → how long it keeps records; those that may hold some of the contact's.
        letters_left: places of its dead letters that could not be deleted yet.
        rows: the CRM's tables → how many rows.
    """
    found: list[Remains] = []
    for topic, one in kept.items():
        if one.compacted:
            found.append(
                Remains(
                    topic, "ids, no content; older copies go when Kafka compacts the log after its tombstone"
                )
            )
        elif one.retention_ms >= 0:
            until_ms = last_ms + one.retention_ms + one.segment_ms
            found.append(Remains(topic, "its records, read-only", until_ms))
    if letters_left:
        shown = ", ".join(letters_left[:5]) + (" …" if len(letters_left) > 5 else "")
        found.append(
            Remains(
                "dead letters",
                f"{len(letters_left):,} whose replacement is written ({shown}): Kafka deletes from a "
                "partition's beginning only; settle the open letters before them, then run this again",
            )
        )
    found += [
        Remains(table, f"{count:,} rows of the CRM's own, which are the CRM's to erase")
        for table, count in rows.items()
        if count
    ]
    return found
