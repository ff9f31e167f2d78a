"""The report of a shadow: its windows beside what the old drain did, counted, with examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import msgspec
import psycopg

from ops.errors import NotFound
from ops.moments import now_ms
from ops.shadow import ours, theirs
from ops.shadow.compare import DIFFERENCES, Finding, Kind, NotComparable, Ours, compare
from ops.why.reader import TopicReader
from schemas.topic_names import APP_ID
from settings import Settings
from streams.lag import Lags, LagUnknown
from streams.topics import source_topic

EXAMPLES: Final = 5
"""Of each kind, the newest."""
MOST: Final = 100_000
"""Windows that one report compares."""
OPEN_MS: Final = 240_000
"""An event this old is in no open window any more: 60 s and two minutes for a photo, and some patience."""
LATE_S: Final = 60.0


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One window; times in Unix ms."""

    at_ms: int
    organization_id: str
    contact_id: str | None = None
    conversation_id: str | None = None
    events: list[str]
    ours: str
    """`job`, or the reason of the stop."""
    first_look: str | None = None
    """What ours would have been when the window opened."""
    theirs: str
    jobs: list[str] = []
    """Ids of the old drain's jobs."""


class Report(msgspec.Struct, kw_only=True):
    """What was compared and what was found."""

    since_ms: int
    until_ms: int
    windows: int = 0
    events: int = 0
    same: dict[str, int] = {}
    differences: dict[str, int] = {}
    by_reason: dict[str, dict[str, int]] = {}
    """Kind → ours (`job`, a reason) → how many."""
    not_comparable: dict[str, int] = {}
    examples: dict[str, list[Example]] = {}
    notes: list[str] = []
    behind: int | None = None
    """Events that the shadow has not read yet; None: not known."""

    @property
    def differs(self) -> bool:
        """Whether there is any difference."""
        return bool(self.differences)


def report(
    url: str,
    bootstrap: str,
    settings: Settings,
    since_ms: int,
    *,
    most: int = MOST,
    organization: str | None = None,
) -> Report:
    """Compare what was decided since then.

    Args:
        url: the CRM's database.
        bootstrap: Kafka's host:port list.
        settings: of the installation.
        since_ms: Unix ms.
        most: windows at most, the newest.
        organization: of this one alone.

    Raises NotFound: there was never a shadow; and OpsError.
    """
    with TopicReader(bootstrap) as reader:
        if not reader.partitions(ours.outcomes_of(settings)):
            raise NotFound(
                f"There is no topic {ours.outcomes_of(settings)}: no shadow has run here. `rajada shadow "
                "run` starts one."
            )
        found, left_out = ours.windows(reader, settings, since_ms, most)
    windows = [one for one in found if organization is None or one.organization_id == organization]
    made = Report(since_ms=since_ms, until_ms=now_ms(), behind=_behind(bootstrap, settings))
    if left_out:
        made.notes.append(f"Only about the newest {most:,} windows were compared; ask for a shorter time.")
    findings: list[Finding] = []
    with theirs.reading(url) as connection:
        for start in range(0, len(windows), theirs.BATCH):
            batch = windows[start : start + theirs.BATCH]
            events, jobs = theirs.rows_of(connection, batch, settings.shadow_reason)
            at_ms = now_ms()
            findings += [compare(one, events, jobs.get(one.contact_id or "", ()), at_ms) for one in batch]
        if windows and not left_out and not made.behind:
            findings += _unseen(connection, windows, made, organization)
    return counted(made, findings)


def counted(made: Report, findings: list[Finding]) -> Report:
    """The report with what was found, the newest examples first."""
    kinds = Counter[Kind]()
    reasons: dict[str, Counter[str]] = {}
    nots = Counter[NotComparable]()
    for one in findings:
        if one.kind is None:
            assert one.because is not None
            nots[one.because] += 1
        else:
            kinds[one.kind] += 1
        name = one.kind or one.because or ""
        if one.kind not in ("same_job", "same_stop"):
            reasons.setdefault(name, Counter())[one.window.outcome] += 1
            made.examples.setdefault(name, []).append(_example(one))
    for examples in made.examples.values():
        examples.sort(key=lambda one: one.at_ms, reverse=True)
        del examples[EXAMPLES:]
    made.windows = sum(1 for one in findings if one.kind != "unseen")
    made.events = sum(len(one.window.events) for one in findings)
    made.same = {kind: kinds[kind] for kind in ("same_job", "same_stop") if kinds[kind]}
    made.differences = {kind: kinds[kind] for kind in DIFFERENCES if kinds[kind]}
    made.by_reason = {name: dict(counts.most_common()) for name, counts in reasons.items()}
    made.not_comparable = dict(nots.most_common())
    return made


def _example(one: Finding) -> Example:
    window = one.window
    return Example(
        at_ms=window.decided_ms,
        organization_id=window.organization_id,
        contact_id=window.contact_id,
        conversation_id=window.conversation_id,
        events=list(window.events),
        ours=window.outcome,
        first_look=window.first_look,
        theirs=one.theirs,
        jobs=list(one.jobs),
    )


def _behind(bootstrap: str, settings: Settings) -> int | None:
    """Events that the shadow's group has yet to read; None: it can't be told."""
    shadow = ours.shadow_of(settings)
    try:
        positions = Lags(bootstrap).of_group(source_topic(settings), shadow.topic(APP_ID), LATE_S)
    except LagUnknown:
        return None
    return sum(one.unread for one in positions)


def _unseen(
    connection: theirs.Connection, windows: list[Ours], made: Report, organization: str | None
) -> list[Finding]:
    """Events in the log that the shadow never saw, of the time in which it would have decided them."""
    first_ms, until_ms = min(one.decided_ms for one in windows), made.until_ms - OPEN_MS
    if until_ms <= first_ms:
        return []
    try:
        rows = theirs.events_between(connection, first_ms, until_ms, MOST)
    except psycopg.errors.QueryCanceled:
        made.notes.append(
            "Whether the shadow saw every event was not looked at: `event_log` has no index that finds a "
            "time quickly enough."
        )
        return []
    seen = {event for window in windows for event in window.events}
    return [
        Finding(
            replace(_nobodys, events=(id_,), organization_id=owner, contact_id=contact, decided_ms=at_ms),
            "unseen",
        )
        for id_, owner, contact, at_ms in rows
        if id_ not in seen and organization in (None, owner)
    ]


_nobodys: Final = Ours(
    events=(), organization_id="", contact_id=None, conversation_id=None, outcome="not seen",
    opened_ms=0, deadline_ms=0, decided_ms=0,
)  # fmt: skip
