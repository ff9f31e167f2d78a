"""What becomes of a job, as its outcomes tell it (pure). Times: seconds, monotonic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ops.demo.happenings import FateState, Moved
from ops.demo.words import counted
from ops.reasons import reason
from schemas.records import Outcome

ENDED: Final = frozenset({"answered", "merged", "covered", "vetoed", "cancelled", "dead"})
SESSION: Final = "session_not_working"

Level = Literal["waits", "works", "good", "stop", "bad"]

LEVELS: Final[Mapping[FateState, Level]] = {
    "waiting": "waits",
    "running": "works",
    "delayed": "stop",
    "held": "stop",
    "answered": "good",
    "merged": "good",
    "covered": "good",
    "vetoed": "stop",
    "cancelled": "stop",
    "dead": "bad",
}
"""How a state is to be coloured."""

_AT_ONCE: Final[Mapping[str, FateState]] = {"running": "running", "held": "held", "dead": "dead"}
_BY_STEP: Final[Mapping[str, FateState]] = {
    "merged": "merged",
    "covered_by": "covered",
    "cancelled": "cancelled",
}


@dataclass(slots=True)
class Fate:
    """Where a job stands, as far as it was told."""

    job_id: str
    state: FateState = "waiting"
    order: tuple[int, int] = (0, 0)
    attempts: int = 0
    """Spent so far, the running one included."""
    why: str = ""
    """The reason as the outcome tells it: a code, perhaps with what was said."""
    again_at: float | None = None
    """When a delayed one runs again."""
    into: str | None = None
    """The job that took it in or covered it."""

    @property
    def ended(self) -> bool:
        """Nothing more comes."""
        return self.state in ENDED

    def move(self, moved: Moved) -> bool:
        """Take in what was told; False: it is old news."""
        if moved.order <= self.order:
            return False
        self.order, self.state, self.attempts = moved.order, moved.state, moved.attempts
        self.why, self.again_at, self.into = moved.why, moved.again_at, moved.into
        return True


def moved(outcome: Outcome, at: float, now_ms: int) -> Moved | None:
    """What an outcome tells of a job's way; None when it tells of events. `now_ms`: Unix ms at `at`."""
    job, status = outcome.job, outcome.job_status
    if job is None or status is None or outcome.stage in ("collect", "decide"):
        return None
    step, _, rest = (outcome.outcome or "").partition(":")
    state = _AT_ONCE.get(status) or _BY_STEP.get(step)
    again_ms = outcome.next_attempt_at_ms
    if state is None:
        failed: FateState = "vetoed" if status == "failed" else "waiting" if again_ms is None else "delayed"
        state = "answered" if status == "done" else failed
    return Moved(
        at=at,
        job_id=job.id,
        order=(job.replay, job.seq),
        state=state,
        attempts=job.attempt,
        why="" if state in ("merged", "covered") else rest,
        again_at=None if again_ms is None else at + (again_ms - now_ms) / 1000,
        into=rest if state in ("merged", "covered") else None,
    )


def told(fate: Fate, messages: int, now: float) -> str:
    """A job's fate at `now` in a few words; `messages` are those that it is to answer."""
    many = counted(messages, "message")
    left = f"{max(0.0, (fate.again_at or now) - now):.1f} s"
    why = reason(fate.why).title
    match fate.state:
        case "waiting":
            return f"1 job · {many}, waits for its turn"
        case "running":
            return f"being answered · {many}{_again(fate.attempts)}"
        case "answered":
            return f"answered · {many}{_again(fate.attempts)}"
        case "merged":
            return f"answered with a newer turn · {many}, merged into it"
        case "covered":
            return f"answered by a newer turn · {many}, no retry needed"
        case "delayed" if fate.why == SESSION:
            return f"its WhatsApp number is not connected, looks again in {left}"
        case "delayed":
            return f"tries again in {left}: attempt {fate.attempts} failed, {why}"
        case "held":
            return f"held: {why}"
        case "dead":
            return f"given up: {why} · {many}, dead letter and alert"
        case _:
            return f"{fate.state}: {why} · {many}"


def _again(attempts: int) -> str:
    return f", attempt {attempts}" if attempts > 1 else ""
