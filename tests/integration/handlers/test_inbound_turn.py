"""Turns handed to a real HTTP server, and what becomes of them by what it does."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import structlog

from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from settings import Settings
from streams.handlers.answers import Answer, Cancelled, Dead, Done, Handler, Hold, Retry
from streams.handlers.http import HttpClient
from streams.handlers.inbound_turn import InboundTurn
from streams.trace_context import own_traceparent
from tests.integration.handlers.raw_server import OK, Talk, raw_server
from tests.integration.handlers.turns import NOW, turn
from tests.unit.builders import uid


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


def handler(client: HttpClient, url: str | None, **changes: object) -> InboundTurn:
    """The handler of turns, for an engine at `url`."""
    settings = Settings.model_validate({"agent_engine_url": url, **changes})
    made: Handler = InboundTurn(client, settings, wall_ms=lambda: NOW)
    assert isinstance(made, InboundTurn)
    return made


async def asked(client: HttpClient, engine: EngineBeside, scenario: Scenario, attempt: int = 1) -> Answer:
    """The answer for a turn that the engine treats so."""
    engine.treat(scenario)
    return await handler(client, engine.url).run(turn(), attempt, [])


# -- what is sent


async def test_a_turn_is_done_and_the_engine_has_all_it_needs(
    client: HttpClient, engine: EngineBeside
) -> None:
    answer = await handler(client, engine.url).run(turn(), 2, [("attempt", b"1")])
    assert answer == Done({"turn": uid("j1")}, facts={"http_status": 200})
    (seen,) = engine.requests()
    assert (seen.job_id, seen.idempotency_key, seen.attempt) == (uid("j1"), uid("j1"), 2)
    assert (seen.contact_id, seen.event_ids) == (uid("ana"), [uid("j1 e1"), uid("j1 e2")])
    assert engine.effects() == {uid("j1"): 1}


async def test_the_payload_goes_as_it_is_and_the_token_with_it(client: HttpClient) -> None:
    payload = '{"b": 1.0, "a": 12345678901234567890123, "b": "é\\u0000"}'

    async def speak(talk: Talk) -> None:
        await talk.say(OK)

    async with raw_server(speak) as raw:
        turns = handler(client, raw.url, agent_engine_token="s3cret")
        assert isinstance(await turns.run(turn(payload=payload), 1, []), Done)
    head, body = raw.requests[0]
    assert body.decode() == (
        f'{{"job_id":"{uid("j1")}","kind":"inbound_turn","attempt":1,"payload":{payload}}}'
    )
    lines = head.splitlines()
    assert "Authorization: Bearer s3cret" in lines and f"Idempotency-Key: {uid('j1')}" in lines
    assert "Content-Type: application/json" in lines


@pytest.mark.parametrize("payload", ["[]", "null", "", '{"a": 1', '{} , "x": {}', "[" * 50_000])
async def test_a_payload_that_would_break_the_request_is_dead_at_once(
    client: HttpClient, engine: EngineBeside, payload: str
) -> None:
    answer = await handler(client, engine.url).run(turn(payload=payload or " "), 1, [])
    assert isinstance(answer, Dead) and answer.code == "bad_payload"
    assert engine.requests() == []


async def test_br_42_three_attempts_are_one_trace_with_one_header_each(
    client: HttpClient, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="fail"))
    turns = handler(client, engine.url)
    for attempt in (1, 2, 3):  # each by another worker, whose record has what its hops left in it
        await turns.run(turn(), attempt, [("attempt", b"%d" % attempt)])
    # the stand-in answers 400 unless there is exactly one well-formed header
    seen = engine.requests()
    assert [one.status for one in seen] == [503, 503, 503]
    assert {one.traceparent for one in seen} == {own_traceparent(uid("j1"))}


async def test_br_42_a_trace_that_began_elsewhere_goes_on(client: HttpClient, engine: EngineBeside) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = [("traceparent", parent.encode()), ("traceparent", own_traceparent(uid("x")).encode())]
    assert isinstance(await handler(client, engine.url).run(turn(), 1, headers), Done)
    assert engine.requests()[0].traceparent == parent


# -- what becomes of it


async def test_it_fails_twice_and_then_succeeds_under_the_same_key(
    client: HttpClient, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="fail", times=2, reason="model overloaded"), uid("ana"))
    turns = handler(client, engine.url)
    answers = [await turns.run(turn(), attempt, []) for attempt in (1, 2, 3)]
    assert answers[0] == Retry("http_503: model overloaded", facts={"http_status": 503})
    assert [type(answer) for answer in answers] == [Retry, Retry, Done]
    assert engine.effects() == {uid("j1"): 1}


async def test_too_many_requests_heeds_retry_after(client: HttpClient, engine: EngineBeside) -> None:
    answer = await asked(client, engine, Scenario(mode="rate", retry_after="7"))
    assert isinstance(answer, Retry) and (answer.kind, answer.after_ms) == ("rate", 7_000)
    answer = await asked(
        client, engine, Scenario(mode="rate", retry_after="Sun, 30 Nov 2025 10:54:20 GMT"), attempt=1
    )
    assert isinstance(answer, Retry) and answer.after_ms == 60_000


async def test_b181_out_of_credit_spends_nothing(client: HttpClient, engine: EngineBeside) -> None:
    answer = await asked(client, engine, Scenario(mode="credit", reason="balance is zero"))
    assert isinstance(answer, Retry) and (answer.kind, answer.spends) == ("credit", False)
    assert answer.reason == "http_402: balance is zero"


@pytest.mark.parametrize("mode", ["conflict", "cancel"])
async def test_b171_a_veto_of_the_engine_cancels(client: HttpClient, engine: EngineBeside, mode: str) -> None:
    answer = await asked(client, engine, Scenario(mode="conflict" if mode == "conflict" else "cancel"))
    assert isinstance(answer, Cancelled) and engine.effects() == {}


async def test_the_engine_asks_for_a_later_time(client: HttpClient, engine: EngineBeside) -> None:
    answer = await asked(
        client, engine, Scenario(mode="retry", retry_after_ms=45_000, reason="media_pending"), attempt=4
    )
    assert answer == Retry("media_pending", 45_000, facts={"http_status": 200})


async def test_a_decision_that_there_is_none_of_is_tried_again(
    client: HttpClient, engine: EngineBeside
) -> None:
    answer = await asked(client, engine, Scenario(mode="garbage"))
    assert isinstance(answer, Retry) and answer.code == "bad_decision" and answer.spends


async def test_another_4xx_is_dead_at_once_with_what_the_engine_says(client: HttpClient) -> None:
    # the stand-in holds requests to the contract: it looks for a token that is not sent
    with EngineBeside(token="s3cret") as engine:
        answer = await handler(client, engine.url).run(turn(), 1, [])
        assert isinstance(answer, Dead)
        assert answer.reason == "http_401: AGENT_ENGINE_TOKEN is missing or another one"
        turns = handler(client, engine.url, agent_engine_token="s3cret")
        assert isinstance(await turns.run(turn(), 1, []), Done)


async def test_br_09_a_hung_engine_is_given_up_and_the_turn_tried_again(
    client: HttpClient, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="hang"), uid("ana"))
    turns = handler(client, engine.url, agent_engine_timeout_s=0.3)
    started = time.monotonic()
    hung, done = await asyncio.gather(
        turns.run(turn("j1", contact="ana"), 1, []), turns.run(turn("j2", contact="bia"), 1, [])
    )
    assert hung == Retry("timeout: no whole answer within 0.3 s") and isinstance(done, Done)
    assert time.monotonic() - started < 0.3 + 2
    assert turns.timeout_s == 0.3


async def test_while_the_first_attempt_still_runs_over_there_a_second_has_no_effect(
    client: HttpClient, engine: EngineBeside
) -> None:
    engine.treat(Scenario(delay_ms=600))
    turns = handler(client, engine.url, agent_engine_read_timeout_s=0.2)
    first, second = await turns.run(turn(), 1, []), await turns.run(turn(), 2, [])
    assert isinstance(first, Retry) and first.code == "read_timeout"
    assert isinstance(second, Retry) and second.code == "http_425"
    await asyncio.sleep(0.6)
    assert isinstance(await turns.run(turn(), 3, []), Done)
    assert engine.effects() == {uid("j1"): 1}


async def test_an_answer_that_got_lost_is_given_again_without_a_second_effect(
    client: HttpClient, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="drop"))
    turns = handler(client, engine.url)
    assert isinstance(await turns.run(turn(), 1, []), Retry)
    assert isinstance(await turns.run(turn(), 2, []), Done)
    assert engine.effects() == {uid("j1"): 1}
    assert [one.replayed for one in engine.requests()] == [False, True]


async def test_ten_gigabytes_are_not_read(client: HttpClient, engine: EngineBeside) -> None:
    started = time.monotonic()
    with structlog.testing.capture_logs() as logs:
        answer = await asked(client, engine, Scenario(mode="flood"))
    assert answer == Done(facts={"http_status": 200, "answer_cut": True})
    assert time.monotonic() - started < 3
    assert [line["event"] for line in logs] == ["answer_cut"]


async def test_a_redirect_to_the_same_place_is_followed_any_other_is_told(
    client: HttpClient, engine: EngineBeside
) -> None:
    engine.treat(Scenario(mode="redirect", location="/elsewhere", times=1))
    assert isinstance(await handler(client, engine.url).run(turn(), 1, []), Done)
    engine.forget()
    away = await asked(client, engine, Scenario(mode="redirect", location="http://u:p@away.invalid/ana"))
    assert isinstance(away, Retry)
    assert away.reason == "http_307: sends us on to away.invalid; correct the URL"


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://no-such-engine.invalid/", "name_unknown"), ("http://127.0.0.1:{free}/", "connection_refused")],
)
async def test_an_engine_that_is_not_there_is_tried_again(client: HttpClient, url: str, code: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    answer = await handler(client, url.format(free=free)).run(turn(), 1, [])
    assert isinstance(answer, Retry) and (answer.code, answer.spends) == (code, True)


# -- what must never happen


async def test_without_an_address_turns_are_held_and_the_log_says_so_once(client: HttpClient) -> None:
    with structlog.testing.capture_logs() as logs:
        turns = handler(client, None)
        answers = [await turns.run(turn(name), 1, []) for name in ("j1", "j2")]
    assert answers == [Hold("no_engine: AGENT_ENGINE_URL is not set")] * 2
    assert [(line["log_level"], line["event"]) for line in logs] == [("warning", "no_agent_engine")]


async def test_no_secret_and_no_person_gets_into_answers_or_log_lines(client: HttpClient) -> None:
    body = json.dumps({"detail": "Bearer s3cret refused for ana@clinica.com.br, +55 11 98765-4321"}).encode()

    async def speak(talk: Talk) -> None:
        await talk.say(
            b"HTTP/1.1 403 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body),
            body,
        )

    with structlog.testing.capture_logs() as logs:
        async with raw_server(speak) as raw:
            turns = handler(client, raw.url, agent_engine_token="s3cret")
            answer = await turns.run(turn(), 1, [])
    assert isinstance(answer, Dead)
    told = f"{answer} {logs} {turns!r}"
    assert not any(secret in told for secret in ("s3cret", "ana@", "98765"))


async def test_a_defect_of_ours_is_no_death_of_a_job(client: HttpClient, engine: EngineBeside) -> None:
    job = turn(payload='{"a": "\ud800"}')  # can't be encoded; no record can hold it either
    with structlog.testing.capture_logs() as logs:
        answer = await handler(client, engine.url).run(job, 1, [])
    assert isinstance(answer, Retry) and answer.reason == "internal_error: UnicodeEncodeError"
    assert [line["event"] for line in logs] == ["handler_failed"]


async def test_a_cancelled_turn_is_broken_off(client: HttpClient, engine: EngineBeside) -> None:
    engine.treat(Scenario(mode="hang"))
    call = asyncio.ensure_future(handler(client, engine.url).run(turn(), 1, []))
    for _ in range(200):
        if engine.requests():
            break
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
