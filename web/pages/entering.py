"""Logging in and out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from web.pages.rendering import page
from web.pages.sessions import COOKIE, LASTS_S, LOGIN_COOKIE, new_login, same
from web.pages.visits import LOGIN, Counter, Visit, guarded, is_ours, read_form, trouble

HOME: Final = "/live"
_WITHIN: Final = re.compile(r"/live(/[A-Za-z0-9/_.-]*)?(\?[A-Za-z0-9/_.=&%+-]*)?")
_LOGIN_S: Final = 3600
_WRONG: Final = "That is no token of the live page, or it was revoked. `rajada tokens page add` makes one."


def login_form(counter: Counter) -> Callable[[Request], Awaitable[Response]]:
    """The form; who is in already is shown the page."""

    async def endpoint(request: Request) -> Response:
        """Show the form."""
        following = _within(request.query_params.get("next", ""))
        if await counter.viewers.of(request.cookies.get(COOKIE)) is not None:
            return RedirectResponse(following, status_code=303)
        return _form(request, following)

    return guarded(endpoint)


def log_in(counter: Counter) -> Callable[[Request], Awaitable[Response]]:
    """What was typed into the form."""

    async def endpoint(request: Request) -> Response:
        """Take the form."""
        address = request.client.host if request.client is not None else ""
        form = await read_form(request)
        following = _within(form.get("next", ""))
        if not is_ours(request) or not same(request.cookies.get(LOGIN_COOKIE, ""), form.get("csrf", "")):
            return _form(request, following, "The form was too old, or cookies are off. Try again.", 403)
        wait_s = counter.tries.wait_s(address)
        if wait_s:
            answer = _form(request, following, f"Too many tries from here. Try again in {wait_s} s.", 429)
            answer.headers["Retry-After"] = str(wait_s)
            return answer
        session = await counter.viewers.log_in(form.get("token", ""))
        if session is None:
            counter.tries.failed(address)
            return _form(request, following, _WRONG, 401)
        answer = RedirectResponse(following, status_code=303)
        _set(request, answer, COOKIE, session.cookie, LASTS_S, "strict")
        answer.delete_cookie(LOGIN_COOKIE, path=LOGIN)
        return answer

    return guarded(endpoint)


async def log_out(visit: Visit) -> Response:
    """The browser forgets the session; a token that somebody else may have is revoked by a command."""
    answer = RedirectResponse(LOGIN, status_code=303)
    answer.delete_cookie(COOKIE, path=HOME)
    return answer


async def not_found(request: Request, error: Exception) -> Response:
    """There is no such page, or it is asked for in a wrong way."""
    status = getattr(error, "status_code", 404)
    told = {405: "That can't be asked in this way.", 400: "The form can't be read.", 415: "That is no form."}
    return trouble(status, told.get(status, "There is no such page."))


def _form(request: Request, following: str, wrong: str = "", status: int = 200) -> Response:
    token = new_login()
    answer = page(
        "login.html",
        {"csrf": token, "following": following, "wrong": wrong, "viewer": None, "path": ""},
        status,
    )
    _set(request, answer, LOGIN_COOKIE, token, _LOGIN_S, "strict", LOGIN)
    return answer


def _set(
    request: Request,
    answer: Response,
    name: str,
    value: str,
    lasts_s: int,
    same_site: Literal["strict"],
    path: str = HOME,
) -> None:
    # whoever claims to be such a proxy makes only a cookie of their own stricter
    secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""))
    answer.set_cookie(
        name, value, max_age=lasts_s, path=path, secure=secure, httponly=True, samesite=same_site
    )


def _within(path: str) -> str:
    """A page of ours, whatever was asked for."""
    return path if _WITHIN.fullmatch(path) and not path.startswith(LOGIN) else HOME
