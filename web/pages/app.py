"""The live page, put together: an ASGI application for every path below /live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.pages import acts, shown
from web.pages.entering import log_in, log_out, login_form, not_found
from web.pages.rendering import HEADERS, static
from web.pages.streaming import follow
from web.pages.visits import Counter, Handler, Visit, visited

ROOT: Final = "/live"
_LETTER: Final = "/letters/{topic}/{partition}/{offset}"


def is_page(path: str) -> bool:
    """Whether a path is the live page's."""
    return path == ROOT or path.startswith(f"{ROOT}/")


def pages(counter: Counter) -> ASGIApp:
    """The application. Each answer carries the headers of `rendering.HEADERS`."""
    looks = {**shown.LIVE, **shown.STILL}
    routes = [
        Route(f"{ROOT}/login", login_form(counter), methods=["GET"]),
        Route(f"{ROOT}/login", log_in(counter), methods=["POST"]),
        Route(f"{ROOT}/logout", visited(counter, log_out), methods=["POST"]),
        Route(f"{ROOT}/static/{{name}}", _static, methods=["GET"]),
        *(
            Route(f"{ROOT}{path}", visited(counter, _page(look)), methods=["GET"])
            for path, look in looks.items()
        ),
        *(
            Route(f"{ROOT}/stream{path}", follow(counter, look), methods=["GET"])
            for path, look in shown.LIVE.items()
        ),
        *_act(counter, "/jobs/{id}/{action}", acts.order, acts.ask_order),
        *_act(counter, f"{_LETTER}/{{action}}", acts.settle_letter, acts.ask_letter),
        *_act(counter, "/alerts/{id}", acts.alert),
    ]
    return _with_headers(Starlette(routes=routes, exception_handlers={HTTPException: not_found}))


def _act(counter: Counter, path: str, do: Handler, ask: Handler | None = None) -> list[Route]:
    found = [Route(f"{ROOT}{path}", visited(counter, do, acts=True), methods=["POST"])]
    if ask is not None:
        found.append(Route(f"{ROOT}{path}", visited(counter, ask, acts=True), methods=["GET"]))
    return found


def _page(look: shown.Look) -> Callable[[Visit], Awaitable[Response]]:
    async def handler(visit: Visit) -> Response:
        made = await look(visit)
        return visit.page(made.template, **made.values)

    return handler


async def _static(request: Request) -> Response:
    found = static(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return found


def _with_headers(application: ASGIApp) -> ASGIApp:
    more = [(name.encode(), value.encode()) for name, value in HEADERS]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        await application(scope, receive, sent)

    return answer
