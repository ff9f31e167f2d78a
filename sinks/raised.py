"""From outcomes to alerts, to what they are about, and to what is over again (spec/jobs.md, "Alerts"). Pure.

An alert is an inbox item, a *trouble* what it is about: a dead event or job, a job that waits for credit, a
clock that is wrong. Items are opened and counted up at once; the periodic pass compares them with the
troubles and opens what is missing or resolves what has healed (`sinks.passes`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

import msgspec

from schemas.kinds import GROUP_LINK, INBOUND_TURN
from schemas.records import Alert, Outcome
from sinks.apply import EXECUTE, HEALTH
from sinks.rows import AlertRow, CureRow, TroubleRow

CONDITION_LASTS_S: Final = 300
"""A process that sees trouble says so every minute; after so long without a word it is over."""

_CURED_BY: Final = {INBOUND_TURN: "out_of_credit", GROUP_LINK: "credentials_missing"}
"""A job of this kind that is done shows that this trouble of its organization is over (behaviour b181)."""


class _Teller(msgspec.Struct, gc=False):
    """The part of a condition's facts that names who sees it."""

    by: str = ""


_teller_decoder = msgspec.json.Decoder(_Teller)


def alerts_of(
    outcomes: Sequence[Outcome], fresh: Collection[int], known: Collection[str] | None = None
) -> list[AlertRow]:
    """The alerts of the outcomes whose places are in `fresh`, one a family, counted, in a fixed order.

    An outcome that was sent twice is fresh once, so it counts once. The order is the one in which the
    locks are taken: the same for everybody, so that two sinks can't wait for each other.

    Args:
        outcomes: of a batch.
        fresh: places of those that were not told before.
        known: organizations that exist; the alerts of any other one are the platform's. None = all do.
    """
    rows = []
    for n in sorted(fresh):
        outcome = outcomes[n]
        if outcome.alert is None:
            continue
        organization_id: str | None = outcome.organization_id
        if not organization_id or (known is not None and organization_id not in known):
            organization_id = None
        rows.append(alert_row(outcome.alert, organization_id))
    return counted(rows)


def alert_row(alert: Alert, organization_id: str | None, occurrences: int = 1) -> AlertRow:
    """One alert as a row; `organization_id` None = the platform's."""
    return AlertRow(
        organization_id=organization_id,
        kind=alert.kind,
        title=alert.title,
        body=alert.body,
        ref_kind=alert.ref_kind,
        ref_id=_uuid_or_none(alert.ref_id),
        occurrences=occurrences,
    )


def alert_of(row: TroubleRow) -> AlertRow:
    """The alert about one trouble."""
    return AlertRow(
        row.organization_id, row.kind, row.title, row.body, row.ref_kind, row.ref_id, occurrences=1
    )


def counted(rows: Iterable[AlertRow]) -> list[AlertRow]:
    """One row a family, with the first one's text: an open item keeps the ids of one example."""
    found: dict[tuple[str, str, str], AlertRow] = {}
    for row in rows:
        key = (row.organization_id or "", row.kind, row.title)
        known = found.get(key)
        if known is None:
            found[key] = row
        else:
            found[key] = AlertRow(
                *(known.organization_id, known.kind, known.title, known.body, known.ref_kind, known.ref_id),
                occurrences=known.occurrences + row.occurrences,
            )
    return [found[key] for key in sorted(found)]


def organizations_of(outcomes: Sequence[Outcome], fresh: Collection[int]) -> list[str]:
    """Whose alerts these are, in order."""
    return sorted(
        {
            outcomes[n].organization_id
            for n in fresh
            if outcomes[n].alert is not None and outcomes[n].organization_id
        }
    )


def troubles_of(outcomes: Sequence[Outcome], fresh: Collection[int]) -> list[TroubleRow]:
    """What the alerts of the outcomes whose places are in `fresh` are about, each once, the newest of it."""
    found: dict[tuple[str, str, str], TroubleRow] = {}
    for n in sorted(fresh):
        outcome = outcomes[n]
        if outcome.alert is None:
            continue
        for about, name, replay, seq in _subjects(outcome):
            row = trouble(
                outcome.alert, outcome.organization_id or None, about, name, outcome.at_ms, replay, seq
            )
            key = (about, name, row.kind)
            known = found.get(key)
            if known is None or (row.replay, row.seq) >= (known.replay, known.seq):
                found[key] = row
    return [found[key] for key in sorted(found)]


def trouble(
    alert: Alert,
    organization_id: str | None,
    about: str,
    name: str,
    said_at_ms: int,
    replay: int = 0,
    seq: int = 0,
    lasts_s: int | None = None,
) -> TroubleRow:
    """What an alert is about, as a row; the arguments are the row's fields."""
    return TroubleRow(
        about=about,
        id=name,
        kind=alert.kind,
        title=alert.title,
        organization_id=organization_id,
        body=alert.body,
        ref_kind=alert.ref_kind,
        ref_id=_uuid_or_none(alert.ref_id),
        replay=replay,
        seq=seq,
        said_at_ms=said_at_ms,
        lasts_s=lasts_s,
    )


def _subjects(outcome: Outcome) -> Iterable[tuple[str, str, int, int]]:
    """What an outcome is about: kind, id, replay, seq."""
    for event in outcome.events:
        yield "event", event.event_id, event.replay, event.seq
    if outcome.events:
        return
    if outcome.job is not None:
        yield "job", outcome.job.id, outcome.job.replay, outcome.job.seq
    elif outcome.job_id is not None:
        yield "job", outcome.job_id, 0, 0


def conditions_of(outcomes: Sequence[Outcome]) -> tuple[list[TroubleRow], list[str]]:
    """What processes say of the machine room: conditions that last, and the names of those that are over.

    Of several words about one condition the last counts. A condition belongs to who sees it: two workers
    may both have a wrong clock.
    """
    said: dict[str, TroubleRow | None] = {}
    for outcome in outcomes:
        if outcome.stage != HEALTH:
            continue
        name = f"{outcome.outcome}@{_teller(outcome.facts)}"
        if outcome.alert is None:
            said[name] = None
        else:
            said[name] = trouble(
                outcome.alert, None, "condition", name, outcome.at_ms, lasts_s=CONDITION_LASTS_S
            )
    lasting = [row for row in said.values() if row is not None]
    return sorted(lasting, key=lambda row: row.id), sorted(name for name, row in said.items() if row is None)


def cures_of(outcomes: Sequence[Outcome]) -> list[CureRow]:
    """Which troubles of which organizations are over, since a job is done that could not be before."""
    found: dict[tuple[str, str], int] = {}
    for outcome in outcomes:
        job = outcome.job
        if job is None or outcome.stage != EXECUTE or outcome.job_status != "done":
            continue
        kind = _CURED_BY.get(job.kind)
        # a job that was merged or covered is done without having been run
        if kind is not None and outcome.outcome == "done":
            key = (job.organization_id, kind)
            found[key] = max(found.get(key, 0), outcome.at_ms)
    return [
        CureRow(organization_id, kind, found[organization_id, kind])
        for organization_id, kind in sorted(found)
    ]


def _teller(facts: str | None) -> str:
    try:
        return _teller_decoder.decode(facts or "{}").by
    except (msgspec.DecodeError, RecursionError):
        return ""


def _uuid_or_none(text: str | None) -> str | None:
    """The text if it is a UUID: the inbox's column holds nothing else, and the body names the rest."""
    try:
        return str(UUID(text)) if text else None
    except ValueError:
        return None
