"""What happens to a job, transition by transition: heads in, heads changed, sends named (pure).

Every function looks at `streams.job_table` first: an event that means nothing in the present state changes
nothing and says so. Rules: spec/jobs.md, "Lanes", "Job heads", "States". Times are Unix ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas import alert_texts
from schemas.kinds import GROUP_LINK
from schemas.records import Alert, Job
from schemas.topic_names import CONTROL
from streams.contact_jobs import ContactJobs
from streams.handlers.answers import Answer, Cancelled, Dead, Done, Hold, Retry
from streams.heads import Head, Origin, State
from streams.job_endings import Rules, cover, delay, die, end, hold, let_go, move
from streams.job_records import send_later, tell
from streams.job_table import Event, targets
from streams.retry import backoff_ms, credit_delay_ms, session_delay_ms

HANDED_BACK_MOST: Final = 3
"""Attempts that a graceful stop may cut short for nothing, one after the other; the next one is spent."""
UNKNOWN_OUTCOME: Final = "unknown_outcome"
"""Code of a hold: it may or may not have taken effect."""
SESSION_ALARM_MS: Final = 3600 * 1000
MOST_TOLD_BYTES: Final = 2 * 1024 * 1024
"""A larger job is told of without its content, which its letter has: outcomes have a largest size, too."""
SOON_MS: Final = 1_000
"""A job that is due so soon waits in its lane: clocks of two machines differ a little."""


# -- records


def take(
    jobs: ContactJobs,
    key: bytes,
    job: Job,
    raw: bytes,
    origin: Origin,
    rules: Rules,
    now_ms: int,
    *,
    old: bool,
) -> Head | None:
    """A record of `dispatch.jobs`; None: it is a redelivery, or its job has ended. `old`: verify it first.

    A head that the job never left answers for itself: a further record of it is dropped (spec/jobs.md).
    """
    head = jobs.head(job.id)
    before = head.state if head is not None else None
    if not targets(Event.RECORD, before) or (head is not None and job.copy < head.copy):
        return None
    if head is None:
        head = jobs.heads[job.id] = Head(State.AWAITED)
    if before is not State.DELAYED:
        jobs.seat(head, job, raw, origin)
    _number(head, job)
    if head.attempt >= max(job.max_attempts, 1):  # written by hand: none of ours is tried again then
        reason = f"attempts_spent: {head.attempt} of {job.max_attempts}"
        die(Event.RECORD, job.id, head, "attempts_spent", reason, rules, now_ms)
    elif job.kind not in rules.kinds:
        reason = f"unknown_kind: no handler for {job.kind!r}"
        die(Event.RECORD, job.id, head, "unknown_kind", reason, rules, now_ms)
    elif before is State.AWAITED and head.cancel is not None:
        end(Event.RECORD, head, State.FAILED, f"cancelled:{head.cancel}", now_ms)
    elif before is State.AWAITED and head.hold is not None:
        hold(Event.RECORD, head, head.hold, now_ms)
    elif job.run_after_ms > now_ms + SOON_MS:
        # made by hand, or by a clock far ahead of ours: the delay topics know how to wait
        move(Event.RECORD, head, State.DELAYED)
        head.copy += 1
        head.seq += 1
        send_later(key, head, head.whole(), now_ms)
    else:
        move(Event.RECORD, head, State.UNVERIFIED if old and before is not State.DELAYED else State.WAITING)
    return head


def refuse(job: Job, raw: bytes, origin: Origin, reason: str, rules: Rules, now_ms: int) -> Head:
    """Give a job up that its contact's record has no room for; `reason` is `code: in words`.

    The head is not the contact's: it says what has to be sent.
    """
    head = Head(State.AWAITED)
    ContactJobs().seat(head, job, raw, origin)
    _number(head, job)
    code, cut = reason.partition(":")[0], len(raw) > MOST_TOLD_BYTES
    die(Event.RECORD, job.id, head, code, reason, rules, now_ms, cut=cut)
    return head


def _number(head: Head, job: Job) -> None:
    """Give a head the numbers of the job's record."""
    head.replay, head.seq, head.copy = job.replay, max(head.seq, job.seq), job.copy
    head.attempt, head.run_after_ms = job.attempt, job.run_after_ms


def verify(jobs: ContactJobs, job_id: str, ended: State | None, now_ms: int) -> bool:
    """The row of an old record was read: `ended` says how its job ended meanwhile, if it did."""
    head = jobs.heads.get(job_id)
    if head is None or head.state is not State.UNVERIFIED:
        return False
    if ended is None:
        move(Event.VERIFIED, head, State.WAITING)
    else:
        move(Event.ENDED_BEFORE, head, ended)
        head.job, head.ended_ms = b"", now_ms
    return True


# -- the run


def start(jobs: ContactJobs, job_id: str, now_ms: int) -> Job:
    """Spend an attempt and say so, before the call: a job that kills its worker dies after its last one."""
    head = jobs.heads[job_id]
    move(Event.START, head, State.RUNNING)
    head.attempt += 1
    head.seq += 1
    head.started_ms = now_ms
    job = head.whole()
    tell(head, job, now_ms, None, facts={"attempt": head.attempt})
    return job


def not_working(jobs: ContactJobs, key: bytes, job_id: str, rules: Rules, now_ms: int) -> None:
    """Its session doesn't work: look again later. No attempt is spent; after an hour somebody is told."""
    head = jobs.heads[job_id]
    head.looks += 1
    head.not_working_since_ms = head.not_working_since_ms or now_ms
    move(Event.NOT_WORKING, head, State.DELAYED)
    alert = None
    if now_ms - head.not_working_since_ms >= SESSION_ALARM_MS and not head.alarmed:
        head.alarmed = True
        alert = alert_texts.session_not_working(head.whole(), head.session_id, rules.language)
    delay(key, head, session_delay_ms(head.looks), "session_not_working", now_ms, alert=alert)


def session_works(jobs: ContactJobs, job_id: str) -> None:
    """Its session works, again or as ever: what was told of that is over, another trouble is told anew."""
    head = jobs.heads[job_id]
    if head.looks:
        head.alarmed = False
    head.looks = head.not_working_since_ms = 0


def answered(jobs: ContactJobs, key: bytes, job_id: str, answer: Answer, rules: Rules, now_ms: int) -> bool:
    """The call has its answer; False: the job isn't running any more (cancelled meanwhile)."""
    head = jobs.heads.get(job_id)
    if head is None or head.state is not State.RUNNING:
        return False
    facts = {"attempt": head.attempt, "duration_ms": now_ms - head.started_ms, **answer.facts}
    head.handed_back = 0
    match answer:
        case Done(result=result):
            job = end(Event.SUCCEED, head, State.DONE, "done", now_ms, facts=facts, result=result)
            cover(jobs, job_id, head, job, now_ms)
        case Cancelled(reason=reason):
            end(Event.VETO, head, State.FAILED, f"vetoed:{reason}", now_ms, facts=facts)
        case Dead(reason=reason):
            die(Event.DIE, job_id, head, answer.code, reason, rules, now_ms, facts)
        case Hold(reason=reason) if answer.code == UNKNOWN_OUTCOME:
            _doubt(key, head, reason, rules, now_ms, facts)
        case Hold(reason=reason):
            head.attempt -= 1
            alert = None if head.alarmed else _hold_alert(head, answer, rules)
            head.alarmed = True
            hold(Event.SUSPEND, head, reason, now_ms, facts=facts, alert=alert)
        case Retry():
            _retry(Event.RETRY, key, head, answer, rules, now_ms, facts)
    return True


def _retry(
    event: Event,
    key: bytes,
    head: Head,
    answer: Retry,
    rules: Rules,
    now_ms: int,
    facts: Mapping[str, object],
) -> None:
    job = head.whole()
    head.last_error = answer.reason
    head.first_failed_ms = head.first_failed_ms or now_ms
    wait_ms = answer.after_ms
    alert = None
    if answer.spends:
        if head.attempt >= job.max_attempts:
            die(event, job.id, head, answer.code, answer.reason, rules, now_ms, facts)
            return
        if wait_ms is None:
            wait_ms = backoff_ms(head.kind, head.attempt, group_link_delay_ms=rules.group_link_delay_ms)
    else:
        head.attempt -= 1
        if answer.kind == "credit":
            wait_ms = credit_delay_ms(_born_ms(head, job), now_ms)
            if wait_ms is None:
                die(event, job.id, head, "out_of_credit", answer.reason, rules, now_ms, facts)
                return
            if not head.alarmed:
                head.alarmed = True
                alert = alert_texts.out_of_credit(job, rules.language)
        elif wait_ms is None:
            wait_ms = backoff_ms(head.kind, head.attempt + 1, group_link_delay_ms=rules.group_link_delay_ms)
    if head.hold is not None:
        hold(event, head, head.hold, now_ms, facts=facts)
        return
    move(event, head, State.DELAYED)
    delay(key, head, wait_ms, answer.code, now_ms, facts=facts, alert=alert)


def _born_ms(head: Head, job: Job) -> int:
    """What the patience of a job counts from: its creation, or the requeue that gave it another life."""
    if head.origin is not None and head.origin.topic == CONTROL:
        return max(job.created_at_ms, head.origin.timestamp)
    return job.created_at_ms


def lose(jobs: ContactJobs, key: bytes, job_id: str, rules: Rules, now_ms: int) -> bool:
    """Its worker died during the call: the attempt is spent, and whether it took effect is unknown."""
    head = jobs.heads.get(job_id)
    if head is None or head.state is not State.RUNNING:
        return False
    facts = {"attempt": head.attempt}
    if head.kind == GROUP_LINK:
        _doubt(key, head, UNKNOWN_OUTCOME, rules, now_ms, facts)
    else:
        _retry(Event.LOSE, key, head, Retry("worker_lost", facts=facts), rules, now_ms, facts)
    return True


def _doubt(
    key: bytes, head: Head, reason: str, rules: Rules, now_ms: int, facts: Mapping[str, object]
) -> None:
    """Nobody knows whether it took effect: held for a person, or tried again the first time, as it is set."""
    head.doubts += 1
    if rules.on_unknown == "resend" and head.doubts == 1:
        _retry(Event.LOSE, key, head, Retry(reason, facts=facts), rules, now_ms, facts)
        return
    head.last_error = reason
    alert = alert_texts.job_unknown_outcome(head.whole(), rules.language)
    hold(Event.LOSE, head, reason, now_ms, facts=facts, alert=alert)


def hand_back(jobs: ContactJobs, key: bytes, job_id: str, rules: Rules, now_ms: int) -> bool:
    """The worker stops before the answer came: given back for nothing a few times, then it is spent."""
    head = jobs.heads.get(job_id)
    if head is None or head.state is not State.RUNNING:
        return False
    if head.handed_back >= HANDED_BACK_MOST or head.kind == GROUP_LINK:
        return lose(jobs, key, job_id, rules, now_ms)
    head.handed_back += 1
    head.attempt -= 1
    if head.hold is not None:
        hold(Event.HAND_BACK, head, head.hold, now_ms)
        return True
    move(Event.HAND_BACK, head, State.WAITING)
    head.seq += 1
    tell(head, head.whole(), now_ms, "handed_back", facts={"attempt": head.attempt + 1})
    return True


def release_if_gone(jobs: ContactJobs, job_id: str, rules: Rules, now_ms: int) -> bool:
    """Release a job that was held for something which is there by now, such as the engine's address."""
    head = jobs.heads[job_id]
    if head.state is not State.HELD or (head.held or "").partition(":")[0] not in rules.releases:
        return False
    let_go(Event.RELEASE, head, now_ms)
    tell(head, head.whole(), now_ms, "released", facts={"by": "itself"})
    return True


def _hold_alert(head: Head, answer: Hold, rules: Rules) -> Alert | None:
    if answer.code in ("no_credentials", "credentials_refused"):
        return alert_texts.credentials_missing(head.whole(), rules.language)
    return None


def forget(jobs: ContactJobs, below_ms: int) -> int:
    """Drop what is older: heads that ended, commands, and orders for jobs that never came. How many heads."""
    if jobs.past is not None and jobs.past.since_ms < below_ms:
        jobs.bring_back()
    gone = [
        job_id
        for job_id, head in jobs.heads.items()
        if not head.unsent and (head.state.ended or head.state is State.AWAITED) and head.ended_ms < below_ms
    ]
    for job_id in gone:
        del jobs.heads[job_id]
    for command in [one for one, at_ms in jobs.commands.items() if at_ms < below_ms]:
        del jobs.commands[command]
    return len(gone)
