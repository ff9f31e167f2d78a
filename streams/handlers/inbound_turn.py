"""Turns of a conversation, handed to the agent engine over HTTP.

Rules: spec/jobs.md, "Lanes"; docs/agent-engine.md tells it to whoever writes an engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from schemas.dead import Header
from schemas.kinds import INBOUND_TURN
from schemas.records import Job
from settings import Settings
from streams.handlers.answers import Answer, Dead, Hold, Retry
from streams.handlers.http import HttpClient, Limits
from streams.handlers.replies import Reply, answer_to
from streams.trace_context import trace_headers

log = structlog.get_logger(__name__)

KIND: Final = INBOUND_TURN
NO_ENGINE: Final = "no_engine"


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class _Request(msgspec.Struct, frozen=True):
    """The body, with the payload as it is; `schemas.http.TurnRequest` tells what is in it."""

    job_id: str
    kind: str
    attempt: int
    payload: msgspec.Raw


class InboundTurn:
    """POSTs each turn to `AGENT_ENGINE_URL`, under the job's id as idempotency key.

    Without that setting every job is held: nothing is lost, nothing is spent, and the log says so once.

    Args:
        client: the process' pool of connections.
        settings: address, secret and times of the engine.
        wall_ms: Unix ms.
    """

    kind: str = KIND

    def __init__(self, client: HttpClient, settings: Settings, wall_ms: Callable[[], int] = _wall_ms) -> None:
        self._client = client
        self._url = settings.agent_engine_url
        token = settings.agent_engine_token
        self._login = {"Authorization": f"Bearer {token.get_secret_value()}"} if token is not None else {}
        self._limits = Limits(
            connect_s=settings.agent_engine_connect_timeout_s,
            read_s=settings.agent_engine_read_timeout_s,
            total_s=settings.agent_engine_timeout_s,
        )
        self._wall_ms = wall_ms
        self.timeout_s = settings.agent_engine_timeout_s
        if self._url is None:
            log.warning(
                "no_agent_engine", consequence="turns are held", advice="set AGENT_ENGINE_URL and start anew"
            )

    async def run(self, job: Job, attempt: int, headers: Sequence[Header]) -> Answer:
        """Ask the engine for the turn; see `streams.handlers.answers.Handler`."""
        if self._url is None:
            return Hold(f"{NO_ENGINE}: AGENT_ENGINE_URL is not set")
        try:
            body = _body(job, attempt)
            if body is None:
                return Dead("bad_payload: the job's payload is no JSON object")
            return await self._ask(self._url, job, attempt, body, trace_headers(job.id, headers))
        except Exception as error:
            log.exception("handler_failed", kind=KIND, job_id=job.id, attempt=attempt)
            return Retry(f"internal_error: {type(error).__name__}")

    async def _ask(self, url: str, job: Job, attempt: int, body: bytes, trace: Mapping[str, str]) -> Answer:
        named = {"Content-Type": "application/json", "Idempotency-Key": job.id, **self._login, **trace}
        reply = await self._client.post(url, body, named, self._limits, repeatable=True)
        answer = answer_to(reply, kind=KIND, attempt=attempt, now_ms=self._wall_ms())
        if isinstance(reply, Reply) and reply.cut:
            log.warning("answer_cut", kind=KIND, job_id=job.id, attempt=attempt, http_status=reply.status)
        return answer


def _body(job: Job, attempt: int) -> bytes | None:
    """The request's body; None when the payload would make it no JSON."""
    payload = job.payload.encode()
    try:
        msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    return msgspec.json.encode(_Request(job.id, job.kind, attempt, msgspec.Raw(payload)))
