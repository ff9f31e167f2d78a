"""What a decision does to its window: frozen, put off after a failure, kept open for media (pure).

A window that was decided is frozen: its events, the decision, the job's id and the time stand in the
contact's record before anything is sent for it (spec/dispatch.md, steps 5 to 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from schemas.records import RunBy
from streams.contact import Contact, Frozen, Window, WindowEvent
from streams.decide import (
    SUPERSEDED,
    Because,
    Decision,
    Emptied,
    Enqueue,
    Fail,
    LookAgain,
    Stop,
    WaitForMedia,
)
from streams.identifiers import job_id, key_parts

MAX_ATTEMPTS: Final = 5
"""An event's decision that failed this often is dead (spec/dispatch.md, Failures in step 4)."""
DEDUPLICATED: Final = "deduplicated"


def apply_decision(
    key: bytes,
    contact: Contact,
    window: Window,
    decision: Decision,
    now_ms: int,
    *,
    retry_ms: int,
    run_by: RunBy = "lanes",
) -> None:
    """Write a decision into the contact's record; `retry_ms` is the wait after a failure.

    A window that is to be looked at again stays as it is.
    """
    gone, others, warnings = decision.deduplicated, decision.of_others, decision.warnings
    match decision:
        case Enqueue(answers=answers):
            contact.superseded.pop(window.conversation_id, None)
            freeze(key, window, "job", gone, warnings, now_ms, answers, run_by, of_others=others)
        case Stop(reason=reason, because=because):
            if reason == SUPERSEDED:
                contact.superseded.setdefault(window.conversation_id, now_ms)
            freeze(key, window, reason, gone, warnings, now_ms, because=because, of_others=others)
        case Emptied():
            freeze(key, window, None, gone, warnings, now_ms, of_others=others)
        case WaitForMedia(recheck_in_ms=recheck_ms):
            wait_for_media(window, now_ms, recheck_ms)
        case Fail(error_class=error_class, message=message):
            fail(window, error_class, message, gone, now_ms, retry_ms, others)
        case LookAgain():
            pass
        case _ as never:
            assert_never(never)


def freeze(
    key: bytes,
    window: Window,
    outcome: str | None,
    deduplicated: Sequence[tuple[str, str | None]],
    warnings: Sequence[str],
    now_ms: int,
    answers: str | None = None,
    run_by: RunBy = "lanes",
    because: Mapping[str, Because] | None = None,
    of_others: Sequence[str] = (),
) -> None:
    """Fix the window's end: `outcome` is `job`, a stop's reason, or None when stop 0 took every event.

    `answers` is the event whose message the job answers, `run_by` who runs it, `because` what made a stop,
    `of_others` are those of the deduplicated whose id is another contact's.
    """
    taken_out = _take_out(window, deduplicated)
    job = None
    if outcome == "job":
        first = window.events[0]
        organization_id, _ = key_parts(key)
        job = job_id(organization_id, first.event_id, first.replay if window.again else 0)
    window.seq += 1
    window.state = "frozen"
    window.look_at_ms = 0
    window.frozen = Frozen(
        outcome=outcome or DEDUPLICATED,
        status="done",
        decided_ms=now_ms,
        job_id=job,
        answers=answers,
        deduplicated=taken_out,
        warnings=list(warnings),
        run_by=run_by,
        because=dict(because or {}),
        of_others=list(of_others),
    )


def fail(
    window: Window,
    error_class: str,
    message: str,
    deduplicated: Sequence[tuple[str, str | None]],
    now_ms: int,
    retry_ms: int,
    of_others: Sequence[str] = (),
) -> bool:
    """Spend an attempt of the window; True when that was its last and it is frozen as dead.

    The count starts from what `event_log.attempts` said; the wait is flat (spec/dispatch.md, Failures).
    """
    window.failures += 1
    window.seq += 1
    window.last_error = message
    if max(member.attempts for member in window.events) + window.failures < MAX_ATTEMPTS:
        window.state = "retry"
        window.look_at_ms = now_ms + retry_ms
        return False
    taken_out = _take_out(window, deduplicated)
    window.state = "frozen"
    window.look_at_ms = 0
    window.frozen = Frozen(
        outcome=error_class,
        status="dead",
        decided_ms=now_ms,
        deduplicated=taken_out,
        last_error=message,
        of_others=list(of_others),
    )
    return True


def _take_out(
    window: Window, deduplicated: Sequence[tuple[str, str | None]]
) -> list[tuple[WindowEvent, str | None]]:
    """Remove the events that stop 0 found from the window; returns them with their jobs."""
    if not deduplicated:
        return []
    gone = dict(deduplicated)
    taken_out = [(member, gone[member.event_id]) for member in window.events if member.event_id in gone]
    window.events = [member for member in window.events if member.event_id not in gone]
    return taken_out


def wait_for_media(window: Window, now_ms: int, recheck_ms: int) -> None:
    """Keep the window open for a photo or audio that is being read; it still takes events (stop 8)."""
    window.state = "media"
    window.look_at_ms = now_ms + recheck_ms
