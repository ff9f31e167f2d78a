"""When a job is tried again (spec/jobs.md, "Lanes" and "States"; spec/group_link.md). Pure.

Delays are in ms, times are Unix ms of the caller's clock.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from schemas.kinds import GROUP_LINK

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

BACKOFF_FIRST_MS: Final = 10 * SECOND
BACKOFF_MOST_MS: Final = 120 * SECOND

GROUP_LINK_DELAY_MS: Final = MINUTE
GROUP_LINK_MOST: Final = 8

CREDIT_OFTEN_MS: Final = 2 * MINUTE
CREDIT_OFTEN_FOR_MS: Final = 30 * MINUTE
CREDIT_SELDOM_MS: Final = 10 * MINUTE
CREDIT_FOR_MS: Final = 6 * HOUR

SESSION_FIRST_MS: Final = 30 * SECOND
SESSION_MOST_MS: Final = 10 * MINUTE

ADVICE_LEAST_MS: Final = SECOND
ADVICE_MOST_MS: Final = HOUR
"""What another system may ask us to wait: `0` must not make a busy loop, `31536000` must not make a job that
nobody will miss until next year."""

_SECONDS = re.compile(r"\d{1,12}(?:\.\d*)?").fullmatch


def backoff_ms(kind: str, failure: int, *, group_link_delay_ms: int = GROUP_LINK_DELAY_MS) -> int:
    """The wait after the `failure`-th failed attempt (from 1) of a job of this kind.

    10, 20, 40, 80, 120, 120 … s (b168); group links: `group_link_delay_ms` (setting
    GROUP_LINK_RETRY_DELAY_MS) × the failures, at most × 8.
    """
    failure = max(failure, 1)
    if kind == GROUP_LINK:
        return group_link_delay_ms * min(failure, GROUP_LINK_MOST)
    return _doubling(BACKOFF_FIRST_MS, BACKOFF_MOST_MS, failure)


def credit_delay_ms(created_at_ms: int, now_ms: int) -> int | None:
    """The wait of a job whose provider is out of credit; None: it has waited long enough and dies.

    Every 2 min in the half hour after its creation, then every 10 min, the last time 6 h after it (b181).
    """
    age = max(now_ms - created_at_ms, 0)
    if age >= CREDIT_FOR_MS:
        return None
    delay = CREDIT_OFTEN_MS if age < CREDIT_OFTEN_FOR_MS else CREDIT_SELDOM_MS
    return min(delay, CREDIT_FOR_MS - age)


def session_delay_ms(looks: int) -> int:
    """The wait of a job whose session was found not working `looks` times (from 1): 30 s, 60 s … 10 min."""
    return _doubling(SESSION_FIRST_MS, SESSION_MOST_MS, max(looks, 1))


def advised_ms(asked_ms: float) -> int | None:
    """A wait that another system asks for, within 1 s and 1 h; None when it is no length of time."""
    if not asked_ms >= 0:  # NaN is neither
        return None
    return int(min(max(asked_ms, ADVICE_LEAST_MS), ADVICE_MOST_MS))


def retry_after_ms(value: str, now_ms: int) -> int | None:
    """The wait that a `Retry-After` header asks for, in seconds or as a date, within 1 s and 1 h.

    A date that has passed means the least wait. None when it says nothing that can be understood.
    """
    text = value.strip()
    if _SECONDS(text):
        return advised_ms(float(text) * SECOND)
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        at_ms = moment.timestamp() * SECOND
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return advised_ms(max(at_ms - now_ms, 0))


def heeding_ms(kind: str, failure: int, advice_ms: int | None) -> int | None:
    """The wait after a failure that came with a `Retry-After`; None: the backoff alone.

    The first time it is taken at its word. From then on it can only lengthen the backoff: a server that says
    "in a second" all through an outage of a minute would else use up a job's attempts in five seconds.
    """
    if advice_ms is None or failure <= 1:
        return advice_ms
    return max(advice_ms, backoff_ms(kind, failure))


def _doubling(first_ms: int, most_ms: int, time: int) -> int:
    # the exponent is bounded first: nobody needs 2 ** 10**9
    return min(first_ms << min(time - 1, 32), most_ms)
