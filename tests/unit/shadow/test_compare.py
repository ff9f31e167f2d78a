"""What counts as the same decision, what as a difference of which kind, and what nobody can compare."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.shadow.compare import (
    DIFFERENCES,
    JOB,
    LATE_MS,
    LEFT_MS,
    SAME,
    SETTLE_MS,
    SUPERSEDED,
    TURN_MS,
    Finding,
    Ours,
    TheirEvent,
    TheirJob,
    compare,
)

T0 = 1_000_000_000
NOW = T0 + 10_000_000
HUMAN = "not_eligible:human_owner"


def window(outcome: str = JOB, first_look: str | None = "same", events: int = 2, **given: object) -> Ours:
    """Opened at T0, due 2 s later, decided at once; by default the first look said the same."""
    made = Ours(
        events=tuple(f"e{n}" for n in range(1, events + 1)),
        organization_id="o",
        contact_id="c",
        conversation_id="v",
        outcome=outcome,
        first_look=outcome if first_look == "same" else first_look,
        opened_ms=T0,
        deadline_ms=T0 + 2_000,
        decided_ms=T0 + 2_000,
    )
    return replace(made, **given)  # type: ignore[arg-type]


def row(status: str = "done", decided_ms: int = T0 + 500, **given: object) -> TheirEvent:
    made = TheirEvent(status=status, created_ms=T0, decided_ms=decided_ms)
    return replace(made, **given)  # type: ignore[arg-type]


def job(
    *events: str, created_ms: int = T0 + 500, started_ms: int | None = None, conversation: str = "v"
) -> TheirJob:
    return TheirJob(
        id=f"job of {events[0]}",
        source=events[0],
        events=frozenset(events),
        conversation_id=conversation,
        created_ms=created_ms,
        started_ms=started_ms,
    )


def found(ours: Ours, *jobs: TheirJob, **rows: TheirEvent) -> Finding:
    return compare(ours, {one: rows.get(one, row()) for one in ours.events}, jobs, NOW)


# -- the same


def test_one_answer_for_a_window_is_the_same_whichever_of_its_events_has_the_job() -> None:
    assert found(window(), job("e1")).kind == found(window(), job("e2")).kind == "same_job"
    assert found(window(), job("e1", "e2")).kind == "same_job"


def test_silence_on_both_sides_is_the_same_where_no_reason_is_told() -> None:
    assert found(window(HUMAN)).kind == "same_stop"
    assert found(window(HUMAN), e1=row(reason=HUMAN), e2=row(reason=HUMAN)).kind == "same_stop"


def test_a_message_that_a_newer_one_answers_here_and_that_rode_along_there_is_the_same() -> None:
    assert found(window(SUPERSEDED, first_look=JOB), job("e0", started_ms=T0 + 60_000)).kind == "same_stop"


# -- different


@pytest.mark.parametrize(
    ("ours", "jobs", "rows", "kind"),
    [
        (window(), [job("e1"), job("e2")], {}, "split"),
        (window(SUPERSEDED), [job("e1")], {}, "split"),
        (window(), [job("e0", "e1", "e2")], {}, "joined"),
        (window(), [job("e0", started_ms=T0 + 5_000)], {}, "joined"),
        (window(), [], {}, "only_ours"),
        (window(HUMAN), [job("e1")], {}, "only_theirs"),
        (window(HUMAN), [], {"e1": row(reason="no_published_agent")}, "other_stop"),
        (window(), [], {"e1": row("dead")}, "they_failed"),
        (window("contact_missing", dead=True), [job("e1")], {}, "we_failed"),
        (window(), [], {"e2": row("pending")}, "they_left"),
        (window(), [], {"e2": row("processing")}, "they_left"),
    ],
)
def test_a_difference_has_its_kind(
    ours: Ours, jobs: list[TheirJob], rows: dict[str, TheirEvent], kind: str
) -> None:
    assert found(ours, *jobs, **rows).kind == kind


def test_a_job_carries_a_later_window_only_while_it_waits_and_only_of_its_conversation() -> None:
    assert found(window(), job("e0", started_ms=T0 - 1)).kind == "only_ours"
    assert found(window(), job("e0", conversation="another")).kind == "only_ours"
    assert found(window(), job("e0", created_ms=T0 + 501)).kind == "only_ours", (
        "made after they dealt with it"
    )


# -- not comparable


def test_their_job_that_ran_before_our_decision_explains_only_what_our_first_look_confirms() -> None:
    ran = job("e1", started_ms=T0 + 1_000)
    assert found(window(HUMAN, first_look=JOB), ran).because == "their_job_ran"
    assert found(window(HUMAN, first_look=HUMAN), ran).kind == "only_theirs", "it was so before it ran"
    assert found(window(HUMAN, first_look=None), ran).because == "their_job_ran", "nobody looked at first"
    later = job("e1", started_ms=T0 + 2_001)
    assert found(window(HUMAN, first_look=None), later).kind == "only_theirs"


def test_facts_that_somebody_else_changed_are_told_apart_from_their_jobs() -> None:
    assert found(window(HUMAN, first_look=JOB), job("e1")).because == "facts_changed"


def test_a_job_of_theirs_between_our_decision_and_theirs_explains_theirs() -> None:
    slow = {"e1": row(decided_ms=T0 + 9_000), "e2": row(decided_ms=T0 + 9_000)}
    earlier = job("e0", created_ms=T0 - 5_000, started_ms=T0 + 4_000, conversation="another")
    assert found(window(), earlier, **slow).because == "their_job_ran"
    assert found(window(), **slow).kind == "only_ours"
    long_ago = replace(earlier, started_ms=T0 - TURN_MS - 1)
    assert found(window(), long_ago, **slow).kind == "only_ours"


def test_a_shadow_that_was_late_can_not_be_compared_unless_it_waited_for_a_file() -> None:
    late = window(HUMAN, decided_ms=T0 + 2_000 + LATE_MS + 1)
    assert found(late, job("e1")).because == "we_were_late"
    assert found(replace(late, waited=True), job("e1")).kind == "only_theirs"
    assert found(replace(late, outcome=JOB), job("e1")).kind == "same_job", "what agrees needs no excuse"


@pytest.mark.parametrize(
    ("ours", "rows", "because"),
    [
        (window(replayed=True), {}, "replayed"),
        (window(), {"e1": row(by_rajada=True)}, "by_rajada"),
    ],
)
def test_what_says_nothing_about_the_old_drain(ours: Ours, rows: dict[str, TheirEvent], because: str) -> None:
    assert found(ours, job("e1"), job("e2"), **rows).because == because


def test_an_event_without_a_row_is_not_theirs() -> None:
    assert compare(window(), {"e1": row()}, [job("e1")], NOW).because == "no_row"


def test_the_old_drain_has_its_time() -> None:
    events = {"e1": row("pending"), "e2": row()}
    ours = window()
    assert compare(ours, events, [], ours.decided_ms + LEFT_MS).because == "not_yet"
    assert compare(ours, events, [], ours.decided_ms + LEFT_MS + 1).kind == "they_left"
    done = {"e1": row(), "e2": row()}
    assert compare(ours, done, [], ours.decided_ms + SETTLE_MS - 1).because == "not_yet"
    assert compare(ours, done, [], ours.decided_ms + SETTLE_MS).kind == "only_ours"


# -- whatever is there

times = st.integers(T0 - 300_000, T0 + 300_000)
names = st.sampled_from(["e0", "e1", "e2", "e3"])
jobs_of_theirs = st.lists(
    st.builds(
        TheirJob,
        id=st.uuids().map(str),
        source=names,
        events=st.frozensets(names, max_size=3),
        conversation_id=st.sampled_from(["v", "w", None]),
        created_ms=times,
        started_ms=st.none() | times,
    ).map(lambda one: replace(one, events=one.events | {one.source})),
    max_size=4,
)
rows_of_theirs = st.fixed_dictionaries(
    {},
    optional={
        one: st.builds(
            TheirEvent,
            status=st.sampled_from(["pending", "processing", "done", "dead", "odd"]),
            created_ms=times,
            decided_ms=times,
            reason=st.none() | st.sampled_from([HUMAN, "other", ""]),
            by_rajada=st.booleans(),
        )
        for one in ("e1", "e2", "e3")
    },
)
windows = st.builds(
    Ours,
    events=st.sampled_from([("e1",), ("e1", "e2"), ("e1", "e2", "e3")]),
    organization_id=st.just("o"),
    contact_id=st.just("c"),
    conversation_id=st.just("v"),
    outcome=st.sampled_from([JOB, HUMAN, SUPERSEDED, "no_published_agent"]),
    dead=st.booleans(),
    first_look=st.sampled_from([None, JOB, HUMAN]),
    opened_ms=times,
    deadline_ms=times,
    decided_ms=times,
    waited=st.booleans(),
    replayed=st.booleans(),
)


@given(windows, rows_of_theirs, jobs_of_theirs, times)
def test_every_window_is_the_same_different_or_not_comparable_and_exactly_one_of_these(
    ours: Ours, rows: dict[str, TheirEvent], jobs: list[TheirJob], now_ms: int
) -> None:
    told = compare(ours, rows, jobs, now_ms)
    assert (told.kind is None) != (told.because is None)
    assert told.kind is None or told.kind in (*SAME, *DIFFERENCES)
    assert set(told.jobs) == {one.id for one in jobs if one.events & set(ours.events)}


@given(windows, rows_of_theirs, jobs_of_theirs, times)
def test_no_answer_of_theirs_is_ever_called_silence_and_no_silence_an_answer(
    ours: Ours, rows: dict[str, TheirEvent], jobs: list[TheirJob], now_ms: int
) -> None:
    told = compare(ours, rows, jobs, now_ms)
    if told.kind in ("same_stop", "only_ours", "they_failed", "other_stop"):
        assert not told.jobs
    if told.kind in ("same_job", "only_theirs", "split"):
        assert told.jobs
    if told.kind in ("same_job", "only_ours", "joined"):
        assert ours.outcome == JOB
    if told.kind in ("same_stop", "only_theirs", "other_stop"):
        assert ours.outcome != JOB


@given(windows, rows_of_theirs, jobs_of_theirs, st.randoms())
def test_the_order_of_their_jobs_changes_nothing(
    ours: Ours, rows: dict[str, TheirEvent], jobs: list[TheirJob], random: object
) -> None:
    mixed = list(jobs)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = compare(ours, rows, jobs, NOW), compare(ours, rows, mixed, NOW)
    assert (one.kind, one.because) == (other.kind, other.because)


@given(windows, rows_of_theirs, jobs_of_theirs)
def test_a_job_of_theirs_that_never_ran_excuses_nothing(
    ours: Ours, rows: dict[str, TheirEvent], jobs: list[TheirJob]
) -> None:
    never = [replace(one, started_ms=None) for one in jobs]
    assert compare(ours, rows, never, NOW).because != "their_job_ran"
