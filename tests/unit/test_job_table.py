"""The state machine is total: every (state, event) pair does what the table says, no more (BR-63)."""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec
import pytest

from schemas.codec import decode_outcome, encode_job
from schemas.records import Command, Job
from streams.contact_jobs import ContactJobs, decode_jobs, encode_jobs
from streams.control import carry_out
from streams.handlers.answers import Answer, Cancelled, Dead, Done, Hold, Retry
from streams.heads import KEPT_MS, Head, Origin, State, place_of
from streams.job_endings import Rules, leave_to, shrink
from streams.job_records import tell
from streams.job_table import TABLE, Event, targets
from streams.merging import merge
from streams.transitions import (
    answered,
    forget,
    hand_back,
    lose,
    not_working,
    release_if_gone,
    start,
    take,
    verify,
)
from tests.unit.job_worlds import ORGANIZATION, START_MS, job_of, key_of, uuid

KEY = key_of()
JOB = job_of(1)
NEWER = job_of(2)
LINK = msgspec.structs.replace(JOB, kind="group_link_template", attempt=1, seq=9)
RULES = Rules(kinds=frozenset({"inbound_turn", "group_link_template"}), releases=frozenset({"gone"}))
RESENDING = dataclasses.replace(RULES, on_unknown="resend")
STATES: list[State | None] = [None, *State]
CONTACT = (ORGANIZATION, uuid(10_001))

Variant = Callable[[ContactJobs], None]


def head_in(state: State, job: Job = JOB, order: int = 1) -> Head:
    """A head as it would stand in a state."""
    ended = state.ended or state is State.AWAITED
    place = place_of(job)
    return Head(
        state,
        order=order,
        job=b"" if ended else encode_job(job),
        origin=None if ended else Origin("dispatch.jobs", 0, 7, START_MS),
        kind=job.kind,
        conversation_id=place.conversation_id,
        session_id=place.channel_session_id,
        seq=5,
        copy=1,
        attempt=1 if state is State.RUNNING else 0,
        run_after_ms=START_MS,
        started_ms=START_MS if state is State.RUNNING else 0,
        held="gone" if state is State.HELD else None,
    )


def jobs_in(state: State | None) -> ContactJobs:
    jobs = ContactJobs(next_order=2)
    if state is not None:
        jobs.heads[JOB.id] = head_in(state)
    return jobs


def record(*, job: Job = JOB, copy_number: int = 1, old: bool = False, rules: Rules = RULES) -> Variant:
    def apply(jobs: ContactJobs) -> None:
        one = _with(job, copy=copy_number)
        origin = Origin("dispatch.jobs", 0, 9, START_MS)
        take(jobs, KEY, one, encode_job(one), origin, rules, START_MS, old=old)

    return apply


def _with(job: Job, **fields: object) -> Job:
    return msgspec.structs.replace(job, **fields)


def before(variant: Variant, **fields: object) -> Variant:
    """The same with the head changed first."""

    def apply(jobs: ContactJobs) -> None:
        for name, value in fields.items():
            head = jobs.head(JOB.id)
            if head is not None:
                setattr(head, name, value)
        variant(jobs)

    return apply


def answer(one: Answer) -> Variant:
    return lambda jobs: void(answered(jobs, KEY, JOB.id, one, RULES, START_MS + 10))


def void(_: object) -> None:
    """Nothing."""


def command(action: str, rules: Rules = RULES, **fields: object) -> Variant:
    def apply(jobs: ContactJobs) -> None:
        given = {"id": uuid(1), "at_ms": START_MS, "action": action, "job_id": JOB.id, **fields}
        carry_out(jobs, CONTACT, Command(**given), rules, START_MS)

    return apply


def guarded(event: Event, act: Variant) -> Variant:
    """Transitions that the executor only asks for in one state: by the table alone in the others."""

    def apply(jobs: ContactJobs) -> None:
        head = jobs.heads.get(JOB.id)
        if targets(event, head.state if head else None):
            act(jobs)

    return apply


def merged(jobs: ContactJobs) -> None:
    jobs.heads[NEWER.id] = head_in(State.WAITING, NEWER, 2)
    merge(jobs, JOB.id, START_MS)
    del jobs.heads[NEWER.id]


def covered(jobs: ContactJobs) -> None:
    head = jobs.heads.get(JOB.id)
    if head is not None and head.state is State.WAITING:
        head.attempt = 1
    jobs.heads[NEWER.id] = head_in(State.RUNNING, NEWER, 2)
    answered(jobs, KEY, NEWER.id, Done(), RULES, START_MS)
    del jobs.heads[NEWER.id]


SPENT = {"attempt": 5}
VARIANTS: dict[Event, list[Variant]] = {
    Event.RECORD: [
        record(),
        record(old=True),
        record(job=_with(JOB, run_after_ms=START_MS + 60_000)),
        record(job=_with(JOB, kind="fax")),
        before(record(), hold="by hand"),
        before(record(), cancel="by hand"),
    ],
    Event.VERIFIED: [lambda jobs: void(verify(jobs, JOB.id, None, START_MS))],
    Event.ENDED_BEFORE: [
        lambda jobs, ended=ended: void(verify(jobs, JOB.id, ended, START_MS))
        for ended in (State.DONE, State.FAILED, State.DEAD)
    ],
    Event.START: [guarded(Event.START, lambda jobs: void(start(jobs, JOB.id, START_MS)))],
    Event.SUCCEED: [answer(Done())],
    Event.RETRY: [
        answer(Retry("no")),
        before(answer(Retry("no")), hold="by hand"),
        before(answer(Retry("no")), **SPENT),
        answer(Retry("no", spends=False, kind="rate")),
    ],
    Event.VETO: [answer(Cancelled("no"))],
    Event.DIE: [answer(Dead("no"))],
    Event.SUSPEND: [answer(Hold("no_credentials"))],
    Event.LOSE: [
        lambda jobs: void(lose(jobs, KEY, JOB.id, RULES, START_MS)),
        before(lambda jobs: void(lose(jobs, KEY, JOB.id, RULES, START_MS)), **SPENT),
        before(lambda jobs: void(lose(jobs, KEY, JOB.id, RULES, START_MS)), kind="group_link_template"),
        answer(Hold("unknown_outcome: no answer")),
    ],
    Event.HAND_BACK: [
        lambda jobs: void(hand_back(jobs, KEY, JOB.id, RULES, START_MS)),
        before(lambda jobs: void(hand_back(jobs, KEY, JOB.id, RULES, START_MS)), hold="by hand"),
    ],
    Event.NOT_WORKING: [
        guarded(Event.NOT_WORKING, lambda jobs: not_working(jobs, KEY, JOB.id, RULES, START_MS))
    ],
    Event.MERGE: [guarded(Event.MERGE, merged)],
    Event.COVER: [covered],
    Event.CANCEL: [command("cancel")],
    Event.RUN_NOW: [command("run_now"), before(command("run_now"), unseen=True)],
    Event.HOLD: [command("hold")],
    Event.RELEASE: [
        command("release"),
        before(command("release"), unseen=True),
        lambda jobs: void(JOB.id in jobs.heads and release_if_gone(jobs, JOB.id, RULES, START_MS)),
    ],
    Event.REQUEUE: [command("requeue", replay=START_MS, job=encode_job(JOB))],
    Event.RECOVER: [
        command("recover", job=encode_job(LINK)),
        command("recover", RESENDING, job=encode_job(LINK)),
        command("recover", RESENDING, job=encode_job(_with(LINK, attempt=5))),
        command("recover", job=encode_job(_with(LINK, kind="fax"))),
        before(command("recover", job=encode_job(LINK)), cancel="by hand"),
    ],
    Event.SETTLE: [command("settle", reason="wamid.1", job=encode_job(LINK))],
}


def runs(event: Event, state: State | None) -> Iterator[tuple[ContactJobs, ContactJobs]]:
    for variant in VARIANTS[event]:
        jobs = jobs_in(state)
        first = copy.deepcopy(jobs)
        variant(jobs)
        yield first, jobs


@pytest.mark.parametrize("state", STATES, ids=str)
@pytest.mark.parametrize("event", list(Event), ids=str)
def test_a_pair_does_what_the_table_says(event: Event, state: State | None) -> None:
    allowed = targets(event, state)
    for first, jobs in runs(event, state):
        head = jobs.heads.get(JOB.id)
        if allowed:
            assert head is not None and head.state in allowed
            if event not in (Event.RECORD, Event.VERIFIED, Event.ENDED_BEFORE, Event.HOLD, Event.RELEASE):
                assert head.state is state or head.unsent or jobs.unsent, "a transition is told"
        else:
            left = copy.deepcopy(jobs)
            left.unsent, left.commands = first.unsent, first.commands
            for one in (left, first):
                for stood in one.heads.values():
                    stood.unseen = False
                    stood.hold = stood.cancel = None
                    stood.attempt, stood.kind = 0, ""
            assert encode_jobs(left) == encode_jobs(first), "a pair that isn't listed changes nothing"


def test_every_target_of_the_table_is_reached() -> None:
    reached: dict[tuple[Event, State | None], set[State]] = defaultdict(set)
    for event in Event:
        for state in STATES:
            for _, jobs in runs(event, state):
                if targets(event, state) and JOB.id in jobs.heads:
                    reached[event, state].add(jobs.heads[JOB.id].state)
    missing = {
        (event, state): set(wanted) - reached[event, state]
        for event, row in TABLE.items()
        for state, wanted in row.items()
        if set(wanted) - reached[event, state]
    }
    assert missing == {}


LATER_MS = START_MS + 60_000


@pytest.mark.parametrize("state", [State.DONE, State.FAILED], ids=str)
@pytest.mark.parametrize("event", list(Event), ids=str)
def test_a_head_that_was_shrunk_answers_as_it_did_whole(event: Event, state: State) -> None:
    for variant in VARIANTS[event]:
        whole, small = jobs_in(state), jobs_in(state)
        assert shrink(small, LATER_MS) == 1 and len(encode_jobs(small)) < len(encode_jobs(whole)) / 2
        variant(whole)
        variant(small)
        heads = [jobs.head(JOB.id) or Head(state) for jobs in (whole, small)]
        told = [[*jobs.unsent, *head.unsent] for jobs, head in zip((whole, small), heads, strict=True)]
        assert told[0] == told[1]
        for jobs, head in zip((whole, small), heads, strict=True):
            head.unsent = []
            shrink(jobs, LATER_MS * 2)
        assert encode_jobs(whole) == encode_jobs(small)


def test_only_the_heads_of_jobs_that_are_done_or_failed_for_long_are_shrunk() -> None:
    for state in State:
        jobs = jobs_in(state)
        ended = state in (State.DONE, State.FAILED)
        jobs.heads[JOB.id].ended_ms = START_MS
        assert shrink(jobs, START_MS) == 0, "it just ended: its last start counts for rates"
        assert shrink(jobs, START_MS + 1) == ended
        assert shrink(jobs, START_MS + 1) == 0, "nothing is written for it again"
        if ended:
            jobs = jobs_in(state)
            tell(jobs.heads[JOB.id], JOB, START_MS, "done")
            assert shrink(jobs, LATER_MS) == 0, "what it has to say was not confirmed yet"


@pytest.mark.parametrize("state", [one for one in State if one.ended], ids=str)
@pytest.mark.parametrize("event", list(Event), ids=str)
def test_a_head_that_was_put_away_answers_as_if_it_had_never_been(event: Event, state: State) -> None:
    for variant in VARIANTS[event]:
        here = jobs_in(state)
        shrink(here, LATER_MS)
        here.bring_back()
        away = copy.deepcopy(here)
        assert shrink(away, LATER_MS) == 0 and not away.heads and away.past is not None
        assert encode_jobs(away) == encode_jobs(here), "the record is the same"
        variant(here)
        variant(away)
        assert decode_jobs(encode_jobs(away)) == here


def test_what_was_put_away_stands_among_the_heads_of_the_record_and_only_old_ones_are_forgotten() -> None:
    jobs = jobs_in(State.DONE)
    jobs.heads[JOB.id].ended_ms = START_MS
    jobs.heads[NEWER.id] = head_in(State.DEAD, NEWER, 2)
    jobs.heads[NEWER.id].ended_ms = START_MS + 1
    shrink(jobs, START_MS + 1)
    shrink(jobs, START_MS + 2)
    assert not jobs.heads and not jobs.is_empty
    alone = decode_jobs(encode_jobs(jobs))
    assert list(alone.heads) == [JOB.id, NEWER.id] and alone.past is None
    waiting = uuid(77)
    jobs.heads[waiting] = head_in(State.WAITING)
    assert list(decode_jobs(encode_jobs(jobs)).heads) == [JOB.id, NEWER.id, waiting]
    del jobs.heads[waiting]

    assert jobs.head(uuid(5)) is None and jobs.head("state") is None and not jobs.heads
    assert forget(jobs, START_MS) == 0 and not jobs.heads, "none is that old: nothing is decoded"
    assert forget(jobs, START_MS + 1) == 1 and list(jobs.heads) == [NEWER.id]
    shrink(jobs, START_MS + 2)
    assert forget(jobs, START_MS + 2) == 1
    jobs.commands.clear()
    assert jobs.is_empty


def test_a_command_is_carried_out_once_by_its_id() -> None:
    jobs = jobs_in(State.WAITING)
    command("hold")(jobs)
    told = len(jobs.heads[JOB.id].unsent)
    command("hold")(jobs)
    assert len(jobs.heads[JOB.id].unsent) == told
    command("release", id=uuid(2))(jobs)
    command("hold")(jobs)
    assert jobs.heads[JOB.id].state is State.WAITING


def test_a_settled_group_link_is_done_with_the_message_that_was_sent_instead() -> None:
    due_ms = START_MS + 3 * KEPT_MS
    link = _with(LINK, attempt=0, seq=2, run_after_ms=due_ms)
    for state in (None, State.HELD, State.DEAD):
        jobs = jobs_in(state)
        if state is State.HELD:
            jobs.heads[JOB.id] = head_in(state, link)
        command("settle", reason="wamid.1", job=encode_job(link))(jobs)
        head = jobs.heads[JOB.id]
        told = decode_outcome(head.unsent[-1].value or b"")
        assert (told.job_status, told.outcome) == ("done", "settled")
        assert told.result == '{"provider_message_id":"wamid.1"}'
        assert told.job is not None and told.job.seq > 2, "the row takes it"
    # its record waits in the delay topics: it is known as long as that may come
    jobs = jobs_in(None)
    command("settle", reason="wamid.1", job=encode_job(link))(jobs)
    jobs.heads[JOB.id].unsent = []
    assert forget(jobs, due_ms - 1) == 0
    record(job=link)(jobs)
    assert jobs.heads[JOB.id].state is State.DONE


def test_only_a_group_link_can_be_settled_and_no_running_one() -> None:
    for job, state in ((JOB, State.WAITING), (LINK, State.RUNNING)):
        jobs = jobs_in(state)
        command("settle", reason="wamid.1", job=encode_job(job))(jobs)
        assert jobs.heads[JOB.id].state is state
        assert b"refused:settle" in (jobs.unsent[0].value or b"")


def test_a_refused_command_says_so_in_the_trace() -> None:
    jobs = jobs_in(State.DONE)
    command("cancel")(jobs)
    (send,) = jobs.unsent
    assert b"refused:cancel" in (send.value or b"")


def test_a_record_from_before_a_release_is_dropped() -> None:
    jobs = jobs_in(State.DELAYED)
    jobs.heads[JOB.id].copy = 3
    command("run_now")(jobs)
    assert jobs.heads[JOB.id].copy == 4
    jobs.heads[JOB.id].state = State.DELAYED
    record(copy_number=3)(jobs)
    assert jobs.heads[JOB.id].state is State.DELAYED


def test_a_requeue_by_an_older_run_is_refused() -> None:
    jobs = jobs_in(State.DEAD)
    command("requeue", replay=START_MS, job=encode_job(JOB))(jobs)
    jobs.heads[JOB.id].state = State.DEAD
    command("requeue", id=uuid(3), replay=START_MS, job=encode_job(JOB))(jobs)
    assert jobs.heads[JOB.id].state is State.DEAD


def test_leaving_twice_is_a_fault_of_the_code() -> None:
    head = head_in(State.RUNNING)
    with pytest.raises(AssertionError):
        leave_to(Event.MERGE, head, uuid(9), 9, "merged", START_MS)


def test_a_job_held_before_its_row_was_looked_at_is_looked_at_when_it_is_released() -> None:
    jobs = jobs_in(State.UNVERIFIED)
    command("hold")(jobs)
    command("release", id=uuid(2))(jobs)
    assert jobs.heads[JOB.id].state is State.UNVERIFIED


def test_a_job_that_was_buried_in_the_delay_topics_can_be_requeued() -> None:
    jobs = jobs_in(State.DELAYED)
    copy_before = jobs.heads[JOB.id].copy
    command("requeue", replay=START_MS, job=encode_job(JOB))(jobs)
    head = jobs.heads[JOB.id]
    assert (head.state, head.attempt, head.copy) == (State.WAITING, 0, copy_before + 1)
    record(copy_number=copy_before)(jobs)
    assert head.state is State.WAITING, "the record that may still be on its way starts nothing"
