"""A body has its time; who has sent it and follows a page has all of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from web import gate
from web.counts import Counts
from web.gate import Gate

LIMIT_S = 0.05


def answered(monkeypatch: pytest.MonkeyPatch, *, more_body: bool) -> tuple[list[Any], list[Any]]:
    """What a page that reads two messages is given, and what is sent; the second comes late for a body."""
    monkeypatch.setattr(gate, "BODY_WITHIN_S", LIMIT_S)
    given: list[Any] = []
    sent: list[Any] = []
    first = [{"type": "http.request", "body": b"", "more_body": more_body}]

    async def receive() -> Any:
        if first:
            return first.pop()
        await asyncio.sleep(4 * LIMIT_S)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def page(scope: Any, receive: Any, send: Any) -> None:
        given.append(await receive())
        given.append(await receive())

    made: Any = Gate
    application = made(page, callers=None, rates=None, max_body=10, counts=Counts(), pages=page)
    asyncio.run(application({"type": "http", "path": "/live/stream", "headers": []}, receive, send))
    return given, sent


def test_who_follows_a_page_is_not_cut_off_when_a_bodys_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    given, sent = answered(monkeypatch, more_body=False)
    assert [one["type"] for one in given] == ["http.request", "http.disconnect"] and not sent


def test_a_body_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given, sent = answered(monkeypatch, more_body=True)
    assert len(given) == 1 and sent[0]["status"] == 408
