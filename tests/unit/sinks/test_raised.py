"""What outcomes raise, what it is about, and what is over: without a database."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from schemas import alert_texts
from schemas.records import Alert, EventOutcome, EventRef, Job, Outcome
from sinks.apply import HEALTH
from sinks.outage import ALARM_S, Outage
from sinks.raised import alerts_of, conditions_of, counted, cures_of, troubles_of
from sinks.watches import MUCH_WAL_MB, Late, Standstill, slot_alert
from streams import health

ORGANIZATION = "11111111-1111-4111-8111-111111111111"
ALERT = Alert(kind="event_dead", title="t", body="b", ref_kind="event_log", ref_id=str(UUID(int=7)))


def outcome(**changed: object) -> Outcome:
    base = Outcome(organization_id=ORGANIZATION, at_ms=1_000, stage="decide", events=(), status="dead")
    return msgspec.structs.replace(base, **changed)


def job(**changed: object) -> Job:
    base = Job(
        id=str(UUID(int=1)), organization_id=ORGANIZATION, kind="inbound_turn", source_event_id="e", seq=9,
        created_at_ms=1, run_after_ms=1, payload="{}", events=(EventRef("e"),),
    )  # fmt: skip
    return msgspec.structs.replace(base, **changed)


def test_a_trouble_is_about_each_event_of_an_outcome_or_else_its_job() -> None:
    events = (EventOutcome(event_id="a", seq=3, replay=5), EventOutcome(event_id="b", seq=4))
    batch = [
        outcome(events=events, alert=ALERT, job_id="j"),
        outcome(job=job(), alert=ALERT),
        outcome(job_id="alone", alert=ALERT),
        outcome(alert=ALERT),
        outcome(events=events),
    ]
    rows = troubles_of(batch, range(len(batch)))
    assert [(row.about, row.id, row.replay, row.seq) for row in rows] == [
        ("event", "a", 5, 3), ("event", "b", 0, 4), ("job", str(UUID(int=1)), 0, 9), ("job", "alone", 0, 0),
    ]  # fmt: skip
    assert troubles_of(batch, {3, 4}) == []


def test_of_two_deaths_of_one_event_the_later_is_noted() -> None:
    def died(replay: int) -> Outcome:
        return outcome(events=(EventOutcome(event_id="a", seq=1, replay=replay),), alert=ALERT)

    (row,) = troubles_of([died(7), died(0)], {0, 1})
    assert row.replay == 7


def test_alerts_of_organizations_that_are_not_there_are_the_platforms() -> None:
    batch = [outcome(alert=ALERT), outcome(alert=ALERT, organization_id="gone"), outcome(alert=ALERT)]
    rows = alerts_of(batch, range(3), {ORGANIZATION})
    assert [(row.organization_id, row.occurrences) for row in rows] == [(None, 1), (ORGANIZATION, 2)]
    assert counted([*rows, *rows])[0].occurrences == 2


def test_the_last_word_about_a_condition_counts_and_each_teller_has_its_own() -> None:
    def said(by: str, alert: Alert | None) -> Outcome:
        return outcome(stage=HEALTH, outcome="clock_skew", facts=f'{{"by":"{by}"}}', alert=alert)

    lasting, over = conditions_of([said("a", ALERT), said("b", None), said("a", None), said("b", ALERT)])
    assert [row.id for row in lasting] == ["clock_skew@b"]
    assert over == ["clock_skew@a"]
    assert conditions_of([outcome(stage=HEALTH, outcome="x", facts="[", alert=ALERT)])[0][0].id == "x@"


def test_workers_tell_under_the_stage_that_the_sink_listens_to() -> None:
    assert health.STAGE == HEALTH


def test_only_a_job_that_was_run_and_is_done_cures() -> None:
    def told(status: str, end: str | None = "done", stage: str = "execute", **changed: object) -> Outcome:
        return outcome(job=job(**changed), job_status=status, outcome=end, stage=stage)

    assert cures_of([told("done", "merged:x"), told("failed"), told("done", stage="decide"), outcome()]) == []
    link = told("done", kind="group_link_template")
    found = cures_of(
        [told("done"), msgspec.structs.replace(told("done"), at_ms=5_000), link, told("running")]
    )
    assert [(row.kind, row.at_ms) for row in found] == [
        ("credentials_missing", 1_000),
        ("out_of_credit", 5_000),
    ]
    assert cures_of([told("done", kind="something_new")]) == []


# -- watches


@pytest.mark.parametrize(
    ("wal_status", "retained_mb", "keep_mb", "family"),
    [
        ("reserved", 10, -1, None),
        ("reserved", MUCH_WAL_MB + 1, -1, "slot_lagging"),
        ("extended", 51, 100, "slot_lagging"),
        ("extended", 50, 100, None),
        ("unreserved", 0, -1, "slot_lagging"),
        ("lost", 0, -1, "slot_lost"),
        ("absent", 0, -1, "slot_lost"),
    ],
)
def test_what_is_told_of_a_slot(wal_status: str, retained_mb: int, keep_mb: int, family: str | None) -> None:
    alert = slot_alert("s", wal_status, retained_mb, keep_mb, "pt-BR")
    assert (alert.title if alert else None) == (alert_texts.title(family) if family else None)


def test_b127_a_drain_stands_still_when_its_oldest_stays_the_same() -> None:
    def late(organization: str, oldest: str) -> Late:
        return Late(organization, oldest, 10, 3)

    watch = Standstill(still_s=300)
    assert watch.see([late("a", "1"), late("b", "1")], 0.0) == []
    assert watch.see([late("a", "1"), late("b", "2")], 299.0) == []
    assert watch.see([late("a", "1"), late("b", "2")], 300.0) == [late("a", "1")]
    assert watch.see([late("b", "3")], 700.0) == [], "behind, but it advances"
    assert watch.see([late("a", "1")], 800.0) == [], "it was well meanwhile, so the time starts anew"


def test_only_a_long_outage_of_postgres_is_told_and_once() -> None:
    outage = Outage()
    assert outage.over(0.0) is None
    outage.seen(0.0, of_postgres=True)
    outage.seen(20.0, of_postgres=True)
    assert outage.over(ALARM_S - 1) is None
    outage.seen(100.0, of_postgres=False)
    outage.seen(110.0, of_postgres=True)
    assert outage.over(110.0 + ALARM_S) == ALARM_S
    assert outage.over(999.0) is None
    outage.seen(1_000.0, of_postgres=False)
    assert outage.over(2_000.0) is None, "Kafka's outages are not Postgres'"
