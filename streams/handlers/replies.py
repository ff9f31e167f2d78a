"""From what an HTTP server answered to a handler's answer, by default (spec/jobs.md, "Lanes"). Pure.

| what came | answer |
| --- | --- |
| 2xx | done, or what the decision in its JSON says |
| 402 | again, as out of credit; no attempt is spent |
| 408, 425, 429, 5xx, 1xx, 3xx, nothing at all | again; `Retry-After` is heeded |
| 409, 410 | cancelled |
| any other 4xx | dead |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from streams.handlers.answers import Answer, Cancelled, Dead, Done, Hold, Retry
from streams.handlers.outgoing import REFUSED
from streams.retry import advised_ms, heeding_ms, retry_after_ms

BAD_DECISION: Final = "bad_decision"
RESULT_BYTES: Final = 4_096
"""What a `done` gives back travels in the job's outcome and is kept with it: an id or two, no transcript."""

_AGAIN: Final = frozenset({408, 425, 429})
_CANCELLED: Final = frozenset({409, 410})
_CREDIT: Final = 402
_ASKS_FOR_LESS: Final = 429

_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}(?::[a-z0-9_-]{1,64})?").fullmatch
_SAYS_WHY: Final = ("reason", "detail", "error", "message", "title")
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP, as far as it was read."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Names in lower case."""
    cut: bool = False
    """The body goes on; only its beginning was read."""


@dataclass(frozen=True, slots=True)
class NoReply:
    """No answer, or none that is whole."""

    reason: str
    """`code: what happened`."""
    may_have_arrived: bool = True
    """Whether the other side may have received the request, and acted on it."""

    @property
    def refused(self) -> bool:
        """Whether our own settings forbid the call: trying again changes nothing, somebody must."""
        return self.reason.partition(":")[0] in REFUSED


def answer_to(reply: Reply | NoReply, *, kind: str, attempt: int, now_ms: int) -> Answer:
    """The handler's answer by default.

    Args:
        reply: what came.
        kind: the job's kind, for its backoff.
        attempt: which attempt this was, from 1.
        now_ms: Unix ms, for a `Retry-After` that is a date.
    """
    if isinstance(reply, NoReply):
        return Hold(reply.reason) if reply.refused else Retry(reply.reason)
    facts: dict[str, object] = {"http_status": reply.status}
    if reply.cut:
        facts["answer_cut"] = True
    status = reply.status
    if 200 <= status < 300:
        return _decision(reply, facts)
    reason = _reason(reply)
    if status == _CREDIT:
        return Retry(reason, spends=False, kind="credit", facts=facts)
    if status in _CANCELLED:
        return Cancelled(reason, facts=facts)
    if 400 <= status < 500 and status not in _AGAIN:
        return Dead(reason, facts=facts)
    advice = retry_after_ms(reply.headers.get("retry-after", ""), now_ms)
    return Retry(
        reason,
        after_ms=heeding_ms(kind, attempt, advice),
        kind="rate" if status == _ASKS_FOR_LESS else "failure",
        facts=facts,
    )


def _decision(reply: Reply, facts: Mapping[str, object]) -> Answer:
    """What a 2xx means.

    Its JSON is optional, so an answer that names no decision is done. One that tries to name a decision which
    can't be understood is neither done, since a message would be lost in silence, nor dead: it is tried again
    (under the same idempotency key), and the last attempt ends in an alert.
    """
    told = _json_object(reply.body)
    if told is None:
        if b"decision" in reply.body and _means_json(reply):
            return Retry(f"{BAD_DECISION}: the answer is no JSON object that can be read", facts=facts)
        return Done(facts=facts)
    decision = told.get("decision")
    word = decision.strip().lower() if isinstance(decision, str) else ""
    if word == "done" or decision is None:
        return _done(told, facts)
    if word == "cancelled":
        return Cancelled(_in_words(told), facts=facts)
    if word == "retry":
        return Retry(_in_words(told), after_ms=_wait(told.get("retry_after_ms")), facts=facts)
    return Retry(f"{BAD_DECISION}: neither done nor retry nor cancelled: {decision!r}", facts=facts)


def _wait(asked: object) -> int | None:
    """The wait that a decision asks for, taken at its word; None for what is no length of time."""
    if isinstance(asked, bool) or not isinstance(asked, (int, float)):
        return None
    return advised_ms(asked)


def _done(told: Mapping[str, object], facts: Mapping[str, object]) -> Done:
    """Done, with the object `result` of the answer if there is one."""
    result = told.get("result")
    if not isinstance(result, dict):
        return Done(facts=facts)
    if len(msgspec.json.encode(result)) > RESULT_BYTES:
        return Done(facts={**facts, "result_too_large": True})
    return Done(result, facts=facts)


def _in_words(told: Mapping[str, object]) -> str:
    """The reason of a decision: a word of the engine's own as it is, a sentence under the code `engine`."""
    reason = told.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        return ""
    return reason if _WORD(reason) else f"engine: {reason.strip()}"


def _reason(reply: Reply) -> str:
    """`http_<status>: ` and what the server says of it, else the status' own words."""
    said = _said(reply) if reply.status >= 400 else _onward(reply)
    if not said:
        try:
            said = HTTPStatus(reply.status).phrase
        except ValueError:
            said = "not a status of HTTP"
    return f"http_{reply.status}: {said}"


def _onward(reply: Reply) -> str:
    """Where a redirect that was not followed would lead: a host, since a path may hold ids of people."""
    location = reply.headers.get("location")
    if location is None:
        return ""
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return f"sends us on to {host or 'another path'}; correct the URL"


def _said(reply: Reply) -> str:
    """Words in the body of an error: a field of its JSON, or plain text; never a page of HTML."""
    told = _json_object(reply.body)
    if told is None:
        if reply.headers.get("content-type", "").lower().startswith("text/plain"):
            return reply.body[:1_000].decode("utf-8", "replace").strip()
        return ""
    for name in _SAYS_WHY:
        said = told.get(name)
        if isinstance(said, dict):
            said = said.get("message")
        if isinstance(said, str) and said.strip():
            return said.strip()
    return ""


def _json_object(body: bytes) -> dict[str, object] | None:
    """The object that the body is; None for anything else."""
    text = body.lstrip(_BLANK)
    if not text.startswith(b"{"):
        return None
    try:
        told: dict[str, object] = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    return told


def _means_json(reply: Reply) -> bool:
    return "json" in reply.headers.get("content-type", "").lower() or reply.body.lstrip(_BLANK)[:1] == b"{"
