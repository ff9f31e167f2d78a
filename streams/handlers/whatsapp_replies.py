"""From what the WhatsApp Cloud API answered to what that means for a message (spec/group_link.md). Pure.

The provider asks to go by the error's `code`, not by titles or HTTP statuses; `docs/group-links.md` has the
table. What is not in it: 4xx never, 5xx soon, no answer unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from streams.handlers.answers import told
from streams.handlers.replies import NoReply, Reply
from streams.retry import HOUR, MINUTE, SECOND, retry_after_ms

Verdict = Literal["soon", "rate", "never", "hold", "unknown"]
"""`soon`: it failed, try again; `rate`: they ask for less; `never`: this message can't be sent; `hold`:
nothing can be sent with this number until somebody has done something; `unknown`: it may have been taken."""

CREDENTIALS_REFUSED: Final = "credentials_refused"
UNKNOWN_OUTCOME: Final = "unknown_outcome"


@dataclass(frozen=True, slots=True)
class Pace:
    """How somebody is left in peace who asks for less: the first wait, its growth, the longest one."""

    first_ms: int
    factor: int
    most_ms: int
    free: int
    """So many waits cost no attempt."""

    def wait_ms(self, waits: int) -> int:
        """The wait after `waits` earlier ones."""
        # the exponent is bounded first: nobody needs 4 ** 10**9
        return min(self.first_ms * int(self.factor ** min(waits, 32)), self.most_ms)


THROUGHPUT: Final = Pace(5 * SECOND, 2, 5 * MINUTE, 20)
"""Of a number or an app: too many messages a second."""
PAIR: Final = Pace(6 * SECOND, 4, HOUR, 6)
"""Too many messages from this number to this person; the provider advises growing by four."""
PATIENCE: Final = Pace(HOUR, 2, 24 * HOUR, 6)
"""It has had enough of us, or the person has: in hours, longer each time."""

_PACES: Final[Mapping[int, Pace]] = {
    4: THROUGHPUT,
    17: THROUGHPUT,
    613: THROUGHPUT,
    80007: THROUGHPUT,
    130429: THROUGHPUT,
    131056: PAIR,
    131048: PATIENCE,
    131049: PATIENCE,
    131057: PATIENCE,
    133016: PATIENCE,
}
_HOLD: Final = frozenset(
    {0, 3, 10, 33, 190, 368, 131005, 131031, 131037, 131042, 131045, 133006, 133010, *range(200, 300)}
)
"""Token, permissions, account, payment, registration: the same for every message of the number."""
_SOON: Final = frozenset({1, 2, 131000, 131016, 133004, 132069, 133015})
_NEVER: Final = frozenset(
    {100, 130472, 131008, 131009, 131021, 131026, 131030, 131047, 131050, 131051, 131052, 131053, 135000}
)
_TEMPLATE: Final = range(132000, 133000)
"""The template is not there, not approved, paused, or its parameters don't fit."""
_ASKS_FOR_LESS: Final = 429
_NOT_LET_IN: Final = frozenset({401, 403})
_LOST_BY_A_GATEWAY: Final = frozenset({502, 504})


@dataclass(frozen=True, slots=True)
class Sent:
    """The provider has taken the message."""

    provider_message_id: str
    facts: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class NotSent:
    """The provider has not taken it, or nobody knows."""

    verdict: Verdict
    reason: str
    """`code: what was said`, masked."""
    pace: Pace | None = None
    """Of `rate`."""
    advice_ms: int | None = None
    """What a `Retry-After` says."""
    facts: Mapping[str, object] = field(default_factory=dict, hash=False)


class _Message(msgspec.Struct):
    id: str


class _Taken(msgspec.Struct):
    messages: list[_Message]


class _Detail(msgspec.Struct):
    details: str = ""


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    error_data: _Detail = msgspec.field(default_factory=_Detail)


class _Refused(msgspec.Struct):
    error: _Error


def read_reply(reply: Reply | NoReply, now_ms: int) -> Sent | NotSent:
    """What became of a message.

    Args:
        reply: what came.
        now_ms: Unix ms, for a `Retry-After` that is a date.
    """
    if isinstance(reply, NoReply):
        if reply.may_have_arrived:
            return NotSent("unknown", told(f"{UNKNOWN_OUTCOME}: {reply.reason}"))
        return NotSent("hold" if reply.refused else "soon", told(reply.reason))
    facts: dict[str, object] = {"http_status": reply.status}
    if 200 <= reply.status < 300:
        taken = _decoded(reply.body, _Taken)
        if taken is not None and taken.messages and taken.messages[0].id:
            return Sent(taken.messages[0].id, facts)
        return NotSent("unknown", f"{UNKNOWN_OUTCOME}: taken, but without a message id", facts=facts)
    refused = _decoded(reply.body, _Refused)
    advice_ms = retry_after_ms(reply.headers.get("retry-after", ""), now_ms)
    if refused is None:
        return _by_status(reply.status, advice_ms, facts)
    error = refused.error
    facts["code"] = error.code
    return _by_code(error.code, error.error_data.details or error.message, reply.status, advice_ms, facts)


def _by_code(
    code: int, said: str, status: int, advice_ms: int | None, facts: Mapping[str, object]
) -> NotSent:
    reason = told(f"whatsapp_{abs(code)}: {said.strip() or f'HTTP {status}'}")
    pace = _PACES.get(code)
    if pace is not None or (code not in _NEVER and status == _ASKS_FOR_LESS):
        return NotSent("rate", reason, pace or THROUGHPUT, advice_ms, facts)
    if code in _HOLD or (code not in _NEVER and status in _NOT_LET_IN):
        return NotSent("hold", told(f"{CREDENTIALS_REFUSED}: {code} {said}"), facts=facts)
    if code in _SOON or (status >= 500 and code not in _NEVER and code not in _TEMPLATE):
        return NotSent("soon", reason, None, advice_ms, facts)
    return NotSent("never", reason, facts=facts)


def _by_status(status: int, advice_ms: int | None, facts: Mapping[str, object]) -> NotSent:
    """An answer that is not the API's own: of a gateway before it, or of another server."""
    reason = f"http_{status}: the answer is not of the WhatsApp Cloud API"
    if status == _ASKS_FOR_LESS:
        return NotSent("rate", reason, THROUGHPUT, advice_ms, facts)
    if status in _NOT_LET_IN:
        return NotSent("hold", f"{CREDENTIALS_REFUSED}: HTTP {status}", facts=facts)
    if status in _LOST_BY_A_GATEWAY:
        return NotSent("unknown", f"{UNKNOWN_OUTCOME}: {reason}", facts=facts)
    if status >= 500 or status in (408, 425) or status < 400:
        return NotSent("soon", reason, None, advice_ms, facts)
    return NotSent("never", reason, facts=facts)


def _decoded(body: bytes, shape: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
