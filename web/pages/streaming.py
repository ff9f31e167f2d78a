"""What a page follows: its regions as they change, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from settings import RajadaError
from web.pages.rendering import regions_of
from web.pages.sessions import COOKIE
from web.pages.shown import Look
from web.pages.visits import Counter, Visit, guarded

EVERY_S: Final = 2.0
LASTS_S: Final = 600.0
"""Then the browser asks anew, so that none is served for ever."""
MOST: Final = 100
"""Streams of one process; who comes then reloads the page by hand."""


def follow(counter: Counter, look: Look) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that tells which regions of a page have changed."""

    async def endpoint(request: Request) -> Response:
        """Open the stream, or say that it ends."""
        viewer = await counter.viewers.of(request.cookies.get(COOKIE))
        if viewer is None:
            return Response(status_code=401)
        if counter.streams >= MOST:
            return Response(status_code=503, headers={"Retry-After": "30"})
        return StreamingResponse(
            _events(counter, look, request),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )

    return guarded(endpoint)


async def _events(counter: Counter, look: Look, request: Request) -> AsyncIterator[str]:
    counter.streams += 1
    told: dict[str, str] = {}
    ends = time.monotonic() + LASTS_S
    try:
        yield "retry: 3000\n\n"
        while not counter.closing and time.monotonic() < ends:
            # each time: a token that was revoked is served no more
            viewer = await counter.viewers.of(request.cookies.get(COOKIE))
            if viewer is None:
                yield "event: ended\ndata: {}\n\n"
                return
            visit = Visit(request, viewer, counter, {})
            try:
                shown = await look(visit)
            except RajadaError:
                yield "event: trouble\ndata: {}\n\n"
            else:
                regions = regions_of(shown.template, visit.values(**shown.values))
                changed = {name: text for name, text in regions.items() if told.get(name) != text}
                told = regions
                yield f"event: regions\ndata: {msgspec.json.encode(changed).decode()}\n\n"
            await _pause(counter)
    finally:
        counter.streams -= 1


async def _pause(counter: Counter) -> None:
    """Until the next look; a stop is not kept waiting."""
    until = time.monotonic() + EVERY_S
    while not counter.closing and (left := until - time.monotonic()) > 0:  # noqa: ASYNC110  # a signal sets it
        await asyncio.sleep(min(left, 0.25))
