"""Texts of others stay texts: they add no line to the log and no header to a call."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from settings import Settings
from streams.handlers.http import HttpClient, Limits
from streams.handlers.inbound_turn import InboundTurn
from streams.handlers.replies import NoReply, Reply
from streams.trace_context import trace_headers
from tests.unit.job_worlds import job_of
from tests.unit.test_logs import written

__all__ = ["written"]

EVIL = [
    "done\n2026-11-30T20:00:00Z [info] paid amount=1000",
    "a\r\nb",
    "\x1b[2K\x1b[1A\x1b[31mred",
    "\u2028next\u2029one\x85two\x0bthree\x0cfour",
    "\x00\x07\x9b31m",
    '"}\n{"event": "forged"}',
]


@pytest.mark.parametrize("evil", EVIL)
def test_one_event_is_one_line_of_the_log_whatever_it_says(written: Callable[[], str], evil: str) -> None:
    log = structlog.stdlib.get_logger("ours")
    log.warning("first", reason=evil, parts=[evil, {evil: evil}])
    logging.getLogger("somebody.else").warning("refused: %s", evil)
    log.warning("last")
    text = written()
    lines = text.splitlines()
    assert len(lines) == 3, lines
    assert not [letter for letter in text if letter != "\n" and not letter.isprintable() and letter != "\x1b"]
    assert "\x1b[2K" not in text and "\x1b[1A" not in text
    if text.startswith("{"):
        assert [json.loads(line)["event"] for line in lines][0::2] == ["first", "last"]


class Recorded(HttpClient):
    """Takes requests down instead of sending them."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []

    async def post(
        self, url: str, content: bytes, headers: Any, limits: Limits, *, repeatable: bool
    ) -> Reply | NoReply:
        self.headers.append(dict(headers))
        return Reply(200, b"", {}, False)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.sampled_from([one.encode() for one in EVIL]), st.binary(max_size=80)),
    st.one_of(st.sampled_from(EVIL), st.text(max_size=40)),
)
async def test_nothing_of_a_record_adds_a_header_or_a_line_to_a_call(value: bytes, text: str) -> None:
    client = Recorded()
    handler = InboundTurn(client, Settings(agent_engine_url="http://127.0.0.1:1/turns"))
    payload = json.dumps({"conversation_id": text})
    job = msgspec.structs.replace(job_of(1), organization_id=text, contact_id=text, payload=payload)
    given = [("traceparent", value), ("tracestate", value), ("x-evil", value), (text, value)]
    await handler.run(job, 1, given)
    (headers,) = client.headers
    assert set(headers) - {"tracestate"} == {"Content-Type", "Idempotency-Key", "traceparent"}
    for name, sent in headers.items():
        assert sent.isascii() and sent.isprintable() and name.isascii(), (name, sent)
    assert trace_headers(job.id, given)["traceparent"] == headers["traceparent"]
