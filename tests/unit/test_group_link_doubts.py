"""Nobody knows whether a group link was sent: held, or sent once more, never a third time."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import decode_outcome, encode_job
from schemas.records import Command
from schemas.topic_names import OUTCOMES
from streams.contact_jobs import ContactJobs
from streams.control import carry_out
from streams.handlers.answers import Answer, Done, Hold, Retry
from streams.heads import Origin, State
from streams.job_endings import Rules
from streams.transitions import answered, hand_back, lose, start, take
from tests.unit.job_worlds import START_MS, job_of, key_of

KEY = key_of()
LINK = msgspec.structs.replace(job_of(1), kind="group_link_template", contact_id=None)
HOLDING = Rules(kinds=frozenset({"group_link_template"}))
RESENDING = dataclasses.replace(HOLDING, on_unknown="resend")
DOUBT = Hold("unknown_outcome: read_timeout: silent for 30 s")


def running(rules: Rules, jobs: ContactJobs | None = None) -> ContactJobs:
    """The job at its next attempt."""
    jobs = jobs or ContactJobs()
    head = jobs.heads.get(LINK.id)
    job = LINK if head is None else head.whole()
    origin = Origin("dispatch.jobs", 0, 1, START_MS)
    at_ms = max(START_MS, job.run_after_ms)
    take(jobs, KEY, job, encode_job(job), origin, rules, at_ms, old=False)
    start(jobs, LINK.id, at_ms)
    return jobs


def alerts(jobs: ContactJobs) -> list[str]:
    told = [decode_outcome(one.value or b"") for one in jobs.heads[LINK.id].unsent if one.topic == OUTCOMES]
    return [one.alert.kind for one in told if one.alert is not None]


def doubt(jobs: ContactJobs, how: str, rules: Rules) -> None:
    """An attempt of which nobody knows."""
    if how == "no answer":
        assert answered(jobs, KEY, LINK.id, DOUBT, rules, START_MS)
    elif how == "worker lost":
        assert lose(jobs, KEY, LINK.id, rules, START_MS)
    else:
        assert hand_back(jobs, KEY, LINK.id, rules, START_MS)


WAYS = ["no answer", "worker lost", "cut short by a stop"]


@pytest.mark.parametrize("how", WAYS)
def test_by_default_it_is_held_with_an_alert_and_the_attempt_is_spent(how: str) -> None:
    jobs = running(HOLDING)
    doubt(jobs, how, HOLDING)
    head = jobs.heads[LINK.id]
    assert (head.state, head.attempt, head.doubts) == (State.HELD, 1, 1)
    assert (head.held or "").startswith("unknown_outcome")
    assert alerts(jobs) == ["job_unknown_outcome"]


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_where_it_is_wanted_it_is_sent_once_more_and_then_held(first: str, second: str) -> None:
    jobs = running(RESENDING)
    doubt(jobs, first, RESENDING)
    assert jobs.heads[LINK.id].state is State.DELAYED and alerts(jobs) == []
    running(RESENDING, jobs)
    doubt(jobs, second, RESENDING)
    assert jobs.heads[LINK.id].state is State.HELD and alerts(jobs) == ["job_unknown_outcome"]


@pytest.mark.parametrize("between", [Retry("whatsapp_131000: no"), Retry("rate", spends=False, kind="rate")])
def test_a_failure_between_two_doubts_does_not_make_the_first_one_forgotten(between: Answer) -> None:
    jobs = running(RESENDING)
    doubt(jobs, "no answer", RESENDING)
    running(RESENDING, jobs)
    assert answered(jobs, KEY, LINK.id, between, RESENDING, START_MS)
    running(RESENDING, jobs)
    doubt(jobs, "worker lost", RESENDING)
    assert jobs.heads[LINK.id].state is State.HELD


def test_the_second_time_may_well_succeed() -> None:
    jobs = running(RESENDING)
    doubt(jobs, "worker lost", RESENDING)
    running(RESENDING, jobs)
    assert answered(jobs, KEY, LINK.id, Done({"provider_message_id": "w"}), RESENDING, START_MS)
    assert jobs.heads[LINK.id].state is State.DONE


def test_failures_wait_the_retry_delay_times_the_failures_at_most_times_eight() -> None:
    rules = dataclasses.replace(HOLDING, group_link_delay_ms=1_000)
    many = msgspec.structs.replace(LINK, max_attempts=12)
    jobs, waits = ContactJobs(), []
    take(
        jobs, KEY, many, encode_job(many), Origin("dispatch.jobs", 0, 1, START_MS), rules, START_MS, old=False
    )
    for _ in range(11):
        start(jobs, LINK.id, START_MS)
        assert answered(jobs, KEY, LINK.id, Retry("whatsapp_1: no"), rules, START_MS)
        head = jobs.heads[LINK.id]
        waits.append(head.run_after_ms - START_MS)
        head.state = State.WAITING
    assert waits == [1_000 * min(n, 8) for n in range(1, 12)]
    start(jobs, LINK.id, START_MS)
    assert answered(jobs, KEY, LINK.id, Retry("whatsapp_1: no"), rules, START_MS)
    assert jobs.heads[LINK.id].state is State.DEAD and alerts(jobs) == ["job_dead"]


@pytest.mark.parametrize("action", ["release", "run_now"])
@pytest.mark.parametrize("rules", [HOLDING, RESENDING])
def test_one_that_is_held_after_its_last_attempt_is_sent_by_one_order_under_the_same_number(
    action: str, rules: Rules
) -> None:
    """A person has looked: the attempt that nobody knows of is given back, none goes above the maximum."""
    jobs = ContactJobs()
    running(rules, jobs)
    head = jobs.heads[LINK.id]
    head.attempt = LINK.max_attempts
    head.doubts = 1 if rules is RESENDING else 0
    for number in range(3):
        doubt(jobs, "no answer", rules)
        assert (head.state, head.attempt) == (State.HELD, LINK.max_attempts)
        order = Command(id=str(number), at_ms=START_MS, action=action, job_id=LINK.id)
        assert carry_out(jobs, (LINK.organization_id, None), order, rules, START_MS)
        assert head.state is State.WAITING
        assert start(jobs, LINK.id, START_MS).attempt == LINK.max_attempts


def test_a_record_whose_attempts_are_spent_is_dead_and_nobody_is_called() -> None:
    jobs = ContactJobs()
    spent = msgspec.structs.replace(LINK, attempt=LINK.max_attempts)
    take(
        jobs, KEY, spent, encode_job(spent), Origin("dispatch.jobs", 0, 1, START_MS), HOLDING, START_MS,
        old=False,
    )  # fmt: skip
    assert jobs.heads[LINK.id].state is State.DEAD and alerts(jobs) == ["job_dead"]


happenings = st.lists(
    st.sampled_from([*WAYS, "fails", "asks for less", "hold", "release", "run_now", "cancel", "requeue"]),
    max_size=40,
)


@pytest.mark.thorough
@given(happenings, st.sampled_from([HOLDING, RESENDING]), st.integers(0, 4))
def test_no_attempt_is_ever_above_the_maximum(script: list[str], rules: Rules, most: int) -> None:
    link = msgspec.structs.replace(LINK, max_attempts=most)
    jobs, now_ms = ContactJobs(), START_MS
    origin = Origin("dispatch.jobs", 0, 1, START_MS)
    take(jobs, KEY, link, encode_job(link), origin, rules, now_ms, old=False)
    head = jobs.heads[link.id]
    for number, what in enumerate(script):
        now_ms = max(now_ms, head.run_after_ms)
        if head.state is State.DELAYED:
            job = head.whole()
            take(jobs, KEY, job, encode_job(job), origin, rules, now_ms, old=False)
        if head.state is State.WAITING:
            assert 1 <= start(jobs, link.id, now_ms).attempt <= max(most, 1)
        if what in WAYS:
            if head.state is State.RUNNING:
                doubt(jobs, what, rules)
        elif what == "fails":
            answered(jobs, KEY, link.id, Retry("whatsapp_1: no"), rules, now_ms)
        elif what == "asks for less":
            answered(jobs, KEY, link.id, Retry("rate", spends=False, kind="rate"), rules, now_ms)
        else:
            order = Command(
                id=str(number), at_ms=now_ms, action=what, job_id=link.id, replay=number,
                job=encode_job(link) if what == "requeue" else None,
            )  # fmt: skip
            carry_out(jobs, (link.organization_id, None), order, rules, now_ms)
        assert head.attempt <= max(most, 1)
