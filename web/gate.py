"""The gate before every route: who asks, how often, and how much; before a body is read."""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg
import structlog
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from db.pool import is_away
from web.callers import Callers, Rates
from web.counts import Counts
from web.errors import DATABASE_AWAY, Refused, of_status
from web.pages.app import is_page

log = structlog.get_logger(__name__)

OPEN: Final = frozenset({"/livez", "/readyz", "/openapi.json"})
"""Paths that anybody may ask for."""
BODY_WITHIN_S: Final = 15.0


class Gate:
    """ASGI middleware: puts the caller into `scope["state"]["caller"]`, or answers with an error.

    Args:
        application: what is behind it.
        callers: who holds which token.
        rates: how often each may ask.
        max_body: bytes of the largest body.
        counts: where answers are counted.
        pages: the live page, which asks for sessions in place of tokens; None: there is none.
    """

    def __init__(
        self,
        application: ASGIApp,
        *,
        callers: Callers,
        rates: Rates,
        max_body: int,
        counts: Counts,
        pages: ASGIApp | None = None,
    ) -> None:
        self._application = application
        self._callers = callers
        self._rates = rates
        self._max_body = max_body
        self._counts = counts
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        begun = False

        async def counted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._counts.answer(message["status"])
            await send(message)

        try:
            headers = dict(scope["headers"])
            if self._pages is not None and is_page(scope["path"]):
                await self._pages(scope, self._limited(headers, receive), counted)
                return
            if scope["path"] not in OPEN:
                given = headers.get(b"authorization")
                caller = await self._callers.of(given.decode("latin-1") if given is not None else None)
                self._rates.take(caller.token_id)
                scope.setdefault("state", {})["caller"] = caller
            await self._application(scope, self._limited(headers, receive), counted)
        except Exception as error:
            if begun:
                raise
            await _told(error).response()(scope, receive, counted)

    def _limited(self, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        """`receive` that refuses a body which is too large or too slow.

        Whoever has sent all of it is waited for without end: they may follow a page.
        """
        told = headers.get(b"content-length", b"")
        if told.isdigit() and (len(told) > 12 or int(told) > self._max_body):
            raise HTTPException(413)
        got, whole = 0, False

        async def bounded() -> Message:
            nonlocal got, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout(BODY_WITHIN_S):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408) from None
            if message["type"] == "http.request":
                got += len(message.get("body", b""))
                whole = not message.get("more_body", False)
                if got > self._max_body:
                    raise HTTPException(413)
            return message

        return bounded


def _told(error: Exception) -> Refused:
    """The answer to what went wrong; nobody is shown more of a defect than that there is one."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, HTTPException):
        return of_status(error.status_code, error.headers)
    if isinstance(error, (psycopg.Error, OSError)) and is_away(error):
        return DATABASE_AWAY
    if isinstance(error, psycopg.errors.UndefinedTable):
        return Refused(503, "not_migrated", "The database lacks tables: `rajada migrate` makes them.")
    log.exception("web_defect")
    return Refused(500, "defect", "An error of ours; the log of `rajada web` has the details.")
