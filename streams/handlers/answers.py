"""What a handler says of a job that it tried to do: it answers, the executor acts.

Rules: spec/jobs.md, "Lanes" (a handler answers with a decision object) and "States". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from schemas.dead import Header
from schemas.masking import masked
from schemas.records import Job

RetryKind = Literal["failure", "rate", "credit", "session"]
"""Why a job is to be tried again: it failed; the other side asks for less; it is out of credit; the channel
session does not work. The executor's delays and alerts go by it (streams/retry.py)."""

NO_REASON: Final = "no_reason_given"

_READ_AT_MOST: Final = 4_000
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}(?::[a-z0-9_-]{1,64})?(?=: |$)").match


def told(text: str) -> str:
    """A reason as it may be stored and shown: first line, at most 300 characters, masked; never empty.

    Behaviour b170, and spec/dispatch.md, where we differ.
    """
    return masked(text[:_READ_AT_MOST]) or NO_REASON


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What every answer may carry besides."""

    facts: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What was seen (HTTP status, ms, …), for the trace: JSON values, no personal data."""


@dataclass(frozen=True, slots=True)
class _Reasoned(_Seen):
    """An answer that needs a reason. The reason is masked here, so that no handler can forget it."""

    reason: str
    """`code` or `code: what was said`, see `told`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", told(self.reason))

    @property
    def code(self) -> str:
        """The part of the reason that is the same for all jobs that met this: to count and to group by."""
        found = _CODE(self.reason)
        return found.group() if found else "other"


@dataclass(frozen=True, slots=True)
class Done(_Seen):
    """The job is done."""

    result: Mapping[str, object] | None = None
    """What the other side gave back, such as a message id: JSON values."""


@dataclass(frozen=True, slots=True)
class Retry(_Reasoned):
    """Not now; perhaps later."""

    after_ms: int | None = None
    """Wait so long, in ms; None: by the backoff of the job's kind."""
    spends: bool = True
    """Whether this was one of the job's attempts (b172: waiting for a session or credit is none)."""
    kind: RetryKind = "failure"


@dataclass(frozen=True, slots=True)
class Cancelled(_Reasoned):
    """Not any more, and nobody is to be alarmed: the job ends as `failed` (b171)."""


@dataclass(frozen=True, slots=True)
class Dead(_Reasoned):
    """It can't be done, and somebody must see it: dead letter and alert, whatever attempts are left."""


@dataclass(frozen=True, slots=True)
class Hold(_Reasoned):
    """Somebody must act first; the job waits, spending nothing, until it is released."""


Answer: TypeAlias = Done | Retry | Cancelled | Dead | Hold


class Handler(Protocol):
    """Does the jobs of one kind."""

    kind: str
    """`Job.kind` of its jobs."""
    timeout_s: float
    """Seconds after which `run` has answered by itself, at the latest."""

    async def run(self, job: Job, attempt: int, headers: Sequence[Header]) -> Answer:
        """Try to do the job.

        Args:
            job: the job; its id is the idempotency key of whatever is called.
            attempt: which attempt this is, counted from 1.
            headers: those of the job's record, in order.

        Never raises but CancelledError, on which a call under way is broken off.
        """
