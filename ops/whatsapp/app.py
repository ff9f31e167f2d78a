"""The stand-in WhatsApp as a web application.

`POST /<version>/<phone number id>/messages` is held strictly to what docs/group-links.md says of a message.
`GET /messages`, `GET /taken`, `PUT /scenarios/<phone, template or default>` and `DELETE /messages` are for
whoever plays with it. `GET /instances/<id>` is what the reconciler asks (docs/reconciler.md): it knows none
but those that `PUT /instances/<id>` has told it of.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final
from uuid import uuid4

from aiohttp import web

from ops.stand_in import StandIn, as_json
from ops.whatsapp.messages import Got, Message, Messages, read_message
from ops.whatsapp.scenario import Scenario, scenario_from_json

_VERSION: Final = re.compile(r"v[0-9]{1,3}\.[0-9]{1,3}")
_NUMBER: Final = re.compile(r"[0-9]{1,32}")


class WhatsApp(StandIn[Scenario]):
    """Takes messages.

    Args:
        default: how everybody is treated that has no scenario of their own.
        token: the access token that requests must carry; None: any is good.
    """

    def __init__(self, default: Scenario | None = None, *, token: str | None = None) -> None:
        super().__init__(default or Scenario(), scenario_from_json)
        self.messages = Messages()
        self.token = token
        self._instances: dict[str, bool] = {}
        """Id → whether it is well, of those that were told."""

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/messages", self._got),
            web.delete("/messages", self._clear),
            web.get("/taken", self._taken),
            web.get("/instances/{id}", self._instance),
            web.put("/instances/{id}", self._set_instance),
            web.post("/{version}/{number}/messages", self._message),
            web.get("/{version}/{number}", self._number),
        ]

    # -- for whoever plays with it

    async def _got(self, request: web.Request) -> web.Response:
        phone = request.query.get("phone")
        return as_json(200, [one for one in self.messages.got if phone in (None, one.phone)])

    async def _taken(self, request: web.Request) -> web.Response:
        return as_json(200, self.messages.taken)

    async def _instance(self, request: web.Request) -> web.Response:
        healthy = self._instances.get(request.match_info["id"])
        return as_json(404, {}) if healthy is None else as_json(200, {"healthy": healthy})

    async def _set_instance(self, request: web.Request) -> web.Response:
        self._instances[request.match_info["id"]] = await request.read() != b"false"
        return web.Response(status=204)

    def forget(self) -> None:
        """Forget messages, and the scenarios of single phones and templates."""
        self.messages.clear()
        self.scenarios.clear()

    # -- messages

    async def _message(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            message = read_message(await request.read())
        except ValueError as error:
            return _error(400, 100, f"(#100) Invalid parameter: {error}")
        got = self.messages.come(message, request.match_info["number"])
        scenario = self.scenarios.of(message.to, message.template.name).treats(got.of_phone)
        got.mode = scenario.mode
        if scenario.mode in ("ok", "drop", "hang"):
            self.messages.take(got)
        await asyncio.sleep(scenario.delay_ms / 1_000)
        return await self._as_told(request, message, got, scenario)

    async def _number(self, request: web.Request) -> web.Response:
        """What `rajada doctor` asks: whether the token may use this number."""
        return self._not_let_in(request) or as_json(200, {"id": request.match_info["number"]})

    def _refusal(self, request: web.Request) -> web.Response | None:
        refused = self._not_let_in(request)
        if refused is None and request.content_type != "application/json":
            return _error(400, 100, "(#100) Content-Type must be application/json")
        return refused

    def _not_let_in(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization", "")
        if not given.startswith("Bearer ") or (self.token is not None and given != f"Bearer {self.token}"):
            return _error(401, 190, "Invalid OAuth access token.")
        if not _VERSION.fullmatch(request.match_info["version"]):
            return _error(404, 2500, "Unknown path components.")
        if not _NUMBER.fullmatch(request.match_info["number"]):
            return _error(400, 33, "Parameter value is not valid.")
        return None

    async def _as_told(
        self, request: web.Request, message: Message, got: Got, scenario: Scenario
    ) -> web.StreamResponse:
        match scenario.mode:
            case "ok":
                got.status = 200
                return as_json(
                    200,
                    {
                        "messaging_product": "whatsapp",
                        "contacts": [{"input": message.to, "wa_id": message.to.removeprefix("+")}],
                        "messages": [{"id": f"wamid.{uuid4().hex}", "message_status": "accepted"}],
                    },
                )
            case "error":
                got.status = scenario.status
                advice = {} if scenario.retry_after is None else {"Retry-After": scenario.retry_after}
                return _error(scenario.status, scenario.code, f"(#{scenario.code}) as told", advice)
            case "gateway":
                got.status = 502
                return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")
            case "hang":
                await self._stopped.wait()
                return web.Response(status=503)
            case "drop" | "cut":
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()


def _error(status: int, code: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    error = {
        "message": message,
        "type": "OAuthException",
        "code": code,
        "error_data": {"messaging_product": "whatsapp", "details": message},
        "fbtrace_id": "stand-in",
    }
    return as_json(status, {"error": error}, headers)
