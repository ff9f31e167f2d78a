"""Commands: what a person orders, carried out by the worker that owns the job (spec/jobs.md, "States"). Pure.

Every command has an id and is carried out once; what came of it stands in the trace, a refusal too.
"""

from __future__ import annotations

import msgspec

from schemas import alert_texts
from schemas.errors import Undecodable
from schemas.kinds import GROUP_LINK
from schemas.records import Command, Job
from schemas.topic_names import CONTROL
from streams.contact_jobs import EVERYBODY, ContactJobs
from streams.heads import KEPT_MS, Head, Origin, State
from streams.job_bounds import read_job
from streams.job_endings import Rules, die, end, hold, let_go, move
from streams.job_records import CONTROL_STAGE, tell, tell_command
from streams.job_table import Event, targets

EVENTS = {
    "cancel": Event.CANCEL,
    "run_now": Event.RUN_NOW,
    "hold": Event.HOLD,
    "release": Event.RELEASE,
    "requeue": Event.REQUEUE,
    "recover": Event.RECOVER,
    "settle": Event.SETTLE,
}
_WITH_A_JOB = frozenset({"requeue", "recover", "settle"})
BY_HAND = "by hand"
"""Why a person holds a job, whatever their reason: it is no code of a hold that ends by itself."""
URGENT = 0
"""Priority of a waiting job that shall run now."""


def pause(jobs: ContactJobs, command: Command, now_ms: int) -> bool:
    """Note a pause or its end in a partition's record of pauses; False: it was carried out before."""
    if command.id in jobs.commands:
        return False
    jobs.commands[command.id] = now_ms
    whose = command.organization_id or EVERYBODY
    if command.action == "pause":
        jobs.paused[whose] = command.reason or ""
    else:
        jobs.paused.pop(whose, None)
    return True


def forget(jobs: ContactJobs, contact: tuple[str, str | None], command: Command, now_ms: int) -> bool:
    """Forget what ended jobs still tell of a contact; False: it was carried out before.

    Their ids stay until their time is over, so that a late record is not run again. What has not ended needs
    its content; how many such jobs there are is told.
    """
    if command.id in jobs.commands:
        return False
    jobs.commands[command.id] = now_ms
    left = 0
    jobs.bring_back()
    for head in jobs.heads.values():
        if head.state.ended:
            head.job, head.origin, head.last_error = b"", None, None
            head.hold = head.cancel = head.held = None
            head.outcome = head.outcome and head.outcome.partition(":")[0]
        elif head.state is not State.AWAITED:
            left += 1
    facts = {"command": command.id, "action": command.action, "by": command.issued_by, "jobs_left": left}
    jobs.unsent.append(tell_command(*contact, None, now_ms, "forgotten", facts))
    return True


def carry_out(
    jobs: ContactJobs, contact: tuple[str, str | None], command: Command, rules: Rules, now_ms: int
) -> bool:
    """Carry out a command to one job; False: it changed nothing.

    `contact`: organization and contact of the record's key. A command for a job that nobody knows yet waits
    for it. One that means nothing in the job's state is refused, and the trace says so.
    """
    job_id = command.job_id
    if command.action == "ask":
        return _ask(jobs, contact, command, now_ms)
    event = EVENTS.get(command.action)
    if command.id in jobs.commands or job_id is None or event is None:
        return False
    jobs.commands[command.id] = now_ms
    head = jobs.head(job_id)
    state = head.state if head is not None else None
    facts = {
        "command": command.id,
        "action": command.action,
        "by": command.issued_by,
        "reason": command.reason,
    }
    refusal = None if targets(event, state) else f"{command.action} of a job that is {state or 'unknown'}"
    if refusal is not None and event is Event.RECOVER:
        return False  # it is known here: its row will say so
    if refusal is None and command.action in _WITH_A_JOB:
        refusal = _unreadable(command)
    if refusal is None and event is Event.SETTLE and _job_of(command).kind != GROUP_LINK:
        refusal = "only a group link can reach its person by another way"
    if refusal is None and event is Event.REQUEUE and head is not None and command.replay <= head.replay:
        refusal = "it was requeued by this run, or by a later one, before"
    if refusal is None and event is Event.RECOVER and command.at_ms < now_ms - KEPT_MS:
        # read anew: its job may have ended, and its head be forgotten; who still misses it orders again,
        # under the same id
        del jobs.commands[command.id]
        refusal = "it was ordered longer ago than heads are kept"
    if refusal is not None:
        outcome, facts = f"refused:{command.action}", {**facts, "because": refusal}
        jobs.unsent.append(tell_command(*contact, job_id, now_ms, outcome, facts))
        return False
    if head is None:
        head = jobs.heads[job_id] = Head(State.AWAITED, ended_ms=now_ms)
    reason = command.reason or BY_HAND
    if event is Event.REQUEUE:
        _requeue(jobs, head, command, now_ms)
        tell(head, head.whole(), now_ms, "requeued", facts=facts, stage=CONTROL_STAGE)
    elif event is Event.RECOVER and head.state.ended:
        _tell_again(head, command, now_ms, facts)  # how it ended was told, and may be lost
    elif event is Event.RECOVER:
        _recover(jobs, head, command, rules, now_ms, facts)
    elif event is Event.SETTLE:
        _settle(jobs, head, command, now_ms, facts)
    elif head.state is State.AWAITED:
        head.cancel = reason if event is Event.CANCEL else head.cancel
        head.hold = reason if event is Event.HOLD else None if event is Event.RELEASE else head.hold
        jobs.unsent.append(tell_command(*contact, job_id, now_ms, f"awaited:{command.action}", facts))
    elif head.state is State.RUNNING and event is not Event.CANCEL:
        head.hold = reason if event is Event.HOLD else None
        jobs.unsent.append(tell_command(*contact, job_id, now_ms, f"noted:{command.action}", facts))
    else:
        _order(head, event, reason, now_ms, facts)
    return True


def _ask(jobs: ContactJobs, contact: tuple[str, str | None], command: Command, now_ms: int) -> bool:
    """Tell once more where a job stands, since what was told of it may be lost; it stays where it is.

    The command carries the job as its row has it: of one that has ended nobody else remembers the content.
    """
    job_id = command.job_id
    if command.id in jobs.commands or job_id is None:
        return False
    jobs.commands[command.id] = now_ms
    head = jobs.head(job_id)
    facts = {"command": command.id, "action": command.action, "by": command.issued_by}
    refusal = _unreadable(command)
    if refusal is not None:
        jobs.unsent.append(
            tell_command(*contact, job_id, now_ms, "refused:ask", {**facts, "because": refusal})
        )
        return False
    if head is None or head.state is State.AWAITED:
        jobs.unsent.append(tell_command(*contact, job_id, now_ms, "unknown", facts))
        return True
    _tell_again(head, command, now_ms, facts)
    return True


def _tell_again(head: Head, command: Command, now_ms: int, facts: dict[str, str | None]) -> None:
    head.seq += 1
    outcome = head.outcome if head.state.ended else None
    if head.state is State.HELD:
        outcome = f"held:{head.held or BY_HAND}"
    job = _as_it_stands(head, command)
    tell(head, job, now_ms, outcome or "told_again", facts=facts, stage=CONTROL_STAGE)


def _as_it_stands(head: Head, command: Command) -> Job:
    if head.job:
        return head.whole()
    return msgspec.structs.replace(
        _job_of(command), replay=head.replay, seq=head.seq, copy=head.copy, attempt=head.attempt
    )


def _order(head: Head, event: Event, reason: str, now_ms: int, facts: dict[str, str | None]) -> None:
    """Do to a job that is here what was ordered, and tell it."""
    head.run_after_ms = head.run_after_ms or now_ms  # a job made by hand may name no time
    if event is Event.CANCEL:
        end(event, head, State.FAILED, f"cancelled:{reason}", now_ms, facts=facts, stage=CONTROL_STAGE)
        return
    if event is Event.HOLD:
        head.unseen = head.state is State.UNVERIFIED
        hold(event, head, reason, now_ms, facts=facts, stage=CONTROL_STAGE)
        head.held = BY_HAND
        return
    if head.state is State.WAITING:
        head.priority, head.run_after_ms = URGENT, now_ms
        head.alarmed, head.held = False, None
        head.seq += 1
    else:
        let_go(event, head, now_ms)
    told = "run_now" if event is Event.RUN_NOW else "released"
    tell(head, head.whole(), now_ms, told, facts=facts, stage=CONTROL_STAGE)


def _unreadable(command: Command) -> str | None:
    """Why a command that must carry a job can't be carried out."""
    if command.job is None:
        return "the command carries no job"
    try:
        read_job(command.job)
    except Undecodable as error:
        return f"the command's job can't be read: {error}"
    return None


def _requeue(jobs: ContactJobs, head: Head, command: Command, now_ms: int) -> None:
    """Take a dead job up again: same id, no attempts spent, the run's replay number."""
    job = _seat(jobs, head, command)
    known = head.state in (State.DEAD, State.DELAYED)
    head.replay = command.replay
    head.seq, head.copy = max(head.seq, job.seq) + 1, max(head.copy, job.copy) + 1
    head.attempt, head.looks, head.handed_back = 0, 0, 0
    head.started_ms = head.first_failed_ms = head.not_working_since_ms = 0
    head.outcome, head.alarmed, head.run_after_ms = None, False, now_ms
    head.state = State.WAITING if known else State.UNVERIFIED


def _recover(
    jobs: ContactJobs,
    head: Head,
    command: Command,
    rules: Rules,
    now_ms: int,
    facts: dict[str, str | None],
) -> None:
    """Take up a job that its row calls running and nobody knows here (spec/group_link.md).

    Whether its attempt took effect is unknown. Where that can't be asked, a person decides, or it is sent
    once more; a cancellation that has waited for the job wins.
    """
    job = _seat(jobs, head, command)
    head.replay, head.seq, head.copy, head.attempt = job.replay, job.seq, job.copy, job.attempt
    head.doubts, head.run_after_ms = 1, now_ms
    if job.kind not in rules.kinds:
        reason = f"unknown_kind: no handler for {job.kind!r}"
        die(Event.RECOVER, job.id, head, "unknown_kind", reason, rules, now_ms, facts)
    elif head.cancel is not None:
        end(Event.RECOVER, head, State.FAILED, f"cancelled:{head.cancel}", now_ms, facts=facts)
    elif job.kind == GROUP_LINK and rules.on_unknown == "hold":
        alert = alert_texts.job_unknown_outcome(head.whole(), rules.language)
        hold(Event.RECOVER, head, "unknown_outcome", now_ms, facts=facts, alert=alert)
    elif job.attempt >= job.max_attempts:
        die(Event.RECOVER, job.id, head, "worker_lost", "worker_lost", rules, now_ms, facts)
    else:
        move(Event.RECOVER, head, State.WAITING)
        head.seq += 1
        tell(head, head.whole(), now_ms, "recovered", facts=facts, stage=CONTROL_STAGE)


def _settle(
    jobs: ContactJobs, head: Head, command: Command, now_ms: int, facts: dict[str, str | None]
) -> None:
    """End a group link whose message has reached the person by another way (spec/group_link.md).

    Its record may still wait in the delay topics: the head stays as long as one that ended when that is due.
    """
    if not head.job:
        job = _seat(jobs, head, command)
        head.replay, head.seq = max(head.replay, job.replay), max(head.seq, job.seq)
        head.attempt, head.run_after_ms = job.attempt, max(head.run_after_ms, job.run_after_ms)
    result = {"provider_message_id": command.reason} if command.reason else None
    end(Event.SETTLE, head, State.DONE, "settled", now_ms, facts=facts, result=result, stage=CONTROL_STAGE)
    head.ended_ms = max(now_ms, head.run_after_ms)


def _seat(jobs: ContactJobs, head: Head, command: Command) -> Job:
    """Put the job that a command carries into its head."""
    job = _job_of(command)
    replays = ("replays", str(command.replays).encode())
    jobs.seat(head, job, command.job or b"", Origin(CONTROL, -1, -1, command.at_ms, [replays]))
    return job


def _job_of(command: Command) -> Job:
    assert command.job is not None, "a command without a readable job was refused"
    return read_job(command.job)
