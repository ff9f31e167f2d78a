"""The stand-in engine as a web application.

`POST` to any path is a turn, held strictly to docs/agent-engine.md: what a real engine might let pass is
refused here. `GET /requests`, `GET /effects`, `PUT /scenarios/<job, contact or default>` and `DELETE
/requests` are for whoever plays with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import msgspec
from aiohttp import web

from ops.engine.journal import Asked, Journal
from ops.engine.scenario import Scenario, scenario_from_json, scenario_from_query
from ops.errors import WrongScenario
from ops.stand_in import StandIn, as_json
from schemas.http import TurnRequest
from streams.handlers.http import SENT_AGAIN
from streams.trace_context import TRACEPARENT, is_traceparent

_CHUNK: Final = b"x" * 65_536


class Engine(StandIn[Scenario]):
    """Answers turns.

    Args:
        journal: where requests are written down.
        default: how everybody is treated that has no scenario of their own.
        honours_keys: a request with the key of one that is under way is answered 425, of one that is done
            with the same answer again and no further effect. False: an engine that does everything anew.
        token: the bearer token that requests must carry; None: none is looked for.
    """

    def __init__(
        self,
        journal: Journal,
        default: Scenario | None = None,
        *,
        honours_keys: bool = True,
        token: str | None = None,
    ) -> None:
        super().__init__(default or Scenario(), scenario_from_json)
        self.journal = journal
        self.honours_keys = honours_keys
        self.token = token
        self._running: set[str] = set()
        self._done: set[str] = set()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/requests", self._requests),
            web.delete("/requests", self._clear),
            web.get("/effects", self._effects),
            web.post("/{path:.*}", self._turn),
        ]

    # -- for whoever plays with it

    async def _requests(self, request: web.Request) -> web.Response:
        found = self.journal.requests(
            job_id=request.query.get("job_id"), contact_id=request.query.get("contact_id")
        )
        return as_json(200, found)

    async def _effects(self, request: web.Request) -> web.Response:
        return as_json(200, self.journal.effects)

    def forget(self) -> None:
        """Forget requests, keys and the scenarios of single jobs and contacts."""
        self.journal.clear()
        self.scenarios.clear()
        self._done.clear()

    # -- turns

    async def _turn(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            turn = msgspec.json.decode(await request.read(), type=TurnRequest)
            asked_for = scenario_from_query(request.query)
        except (msgspec.DecodeError, WrongScenario) as error:
            return as_json(422, {"detail": str(error)})
        key = request.headers.get("Idempotency-Key", "")
        if key != turn.job_id:
            return as_json(400, {"detail": "Idempotency-Key must be the job's id"})
        asked = self.journal.begin(
            job_id=turn.job_id,
            attempt=turn.attempt,
            key=key,
            contact_id=turn.payload.contact_id,
            conversation_id=turn.payload.conversation_id,
            event_ids=turn.payload.event_ids,
            traceparent=request.headers[TRACEPARENT],
            sent_again=SENT_AGAIN in request.headers,
        )
        status: int | None = None
        try:
            answer = await self._answer(request, asked, asked_for)
            status = None if asked.mode == "drop" and not asked.replayed else answer.status
            return answer
        finally:
            self.journal.end(asked, status)

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return as_json(401, {"detail": "AGENT_ENGINE_TOKEN is missing or another one"})
        if request.content_type != "application/json":
            return as_json(415, {"detail": "Content-Type must be application/json"})
        parents = request.headers.getall(TRACEPARENT, [])
        if len(parents) != 1 or not is_traceparent(parents[0].encode()):
            return as_json(400, {"detail": "exactly one well-formed traceparent is needed"})
        return None

    async def _answer(
        self, request: web.Request, asked: Asked, asked_for: Scenario | None
    ) -> web.StreamResponse:
        key = asked.idempotency_key
        if self.honours_keys and key in self._running:
            return as_json(425, {"detail": "a request with this key is under way"}, {"Retry-After": "1"})
        if self.honours_keys and key in self._done:
            asked.replayed = True
            return _done(asked, {"Idempotency-Replayed": "true"})
        scenario = self.scenarios.of(asked.job_id, asked.contact_id, asked=asked_for).treats(asked.of_job)
        asked.mode = scenario.mode
        self._running.add(key)
        try:
            await asyncio.sleep(scenario.delay_ms / 1_000)
            if scenario.mode in ("ok", "drop"):
                self.journal.worked(asked)
                self._done.add(key)
        finally:
            self._running.discard(key)
        return await self._as_told(request, asked, scenario)

    async def _as_told(self, request: web.Request, asked: Asked, scenario: Scenario) -> web.StreamResponse:
        """What a scenario answers."""
        advice = {} if scenario.retry_after is None else {"Retry-After": scenario.retry_after}
        why = {} if scenario.reason is None else {"reason": scenario.reason}
        match scenario.mode:
            case "ok":
                return _done(asked)
            case "drop":
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()
            case "hang":
                await self._stopped.wait()
                return web.Response(status=503)
            case "fail":
                return as_json(scenario.status, why, advice)
            case "rate":
                return as_json(429, why, advice)
            case "credit":
                return as_json(402, why, advice)
            case "conflict":
                return as_json(409, why)
            case "retry":
                wait = {} if scenario.retry_after_ms is None else {"retry_after_ms": scenario.retry_after_ms}
                return as_json(200, {"decision": "retry", **wait, **why})
            case "cancel":
                return as_json(200, {"decision": "cancelled", **why})
            case "garbage":
                return as_json(200, {"decision": "perhaps"})
            case "redirect":
                return web.Response(status=307, headers={"Location": scenario.location})
            case "flood":
                return await _flood(request, scenario.size_bytes)


async def _flood(request: web.Request, size_bytes: int) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Length": str(size_bytes), "Content-Type": "text/plain"})
    await answer.prepare(request)
    with contextlib.suppress(ConnectionError):
        for start in range(0, size_bytes, len(_CHUNK)):
            await answer.write(_CHUNK[: size_bytes - start])
    return answer


def _done(asked: Asked, headers: dict[str, str] | None = None) -> web.Response:
    return as_json(200, {"decision": "done", "result": {"turn": asked.idempotency_key}}, headers)
