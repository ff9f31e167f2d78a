"""Each error of the provider means one thing for a message: soon, later, never, hold, or nobody knows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Job
from streams.handlers.answers import Dead, Done, Hold, Retry
from streams.handlers.group_link_template import answer_of, free_waits, template_of
from streams.handlers.replies import NoReply, Reply
from streams.handlers.whatsapp_replies import PAIR, PATIENCE, THROUGHPUT, NotSent, Sent, Verdict, read_reply
from streams.retry import HOUR, SECOND
from tests.unit.job_worlds import job_of


def error(code: int, status: int = 400, details: str = "so it is", **headers: str) -> Reply:
    body = {"error": {"message": f"(#{code}) title", "code": code, "error_data": {"details": details}}}
    return Reply(status, json.dumps(body).encode(), headers)


TABLE: list[tuple[int, int, Verdict]] = [
    *((code, 400, "never") for code in (100, 130472, 131008, 131009, 131021, 131026, 131030, 131047)),
    *((code, 400, "never") for code in (131050, 131051, 132000, 132001, 132005, 132007, 132012, 132015)),
    (132016, 500, "never"),
    (131026, 500, "never"),
    (131009, 429, "never"),
    (987654, 400, "never"),
    *((code, 400, "rate") for code in (4, 80007, 130429, 131048, 131049, 131056, 131057)),
    (987654, 429, "rate"),
    *((code, 400, "soon") for code in (1, 2, 131000, 131016, 133004)),
    (987654, 500, "soon"),
    (987654, 503, "soon"),
    *((code, 401, "hold") for code in (0, 190)),
    *((code, 400, "hold") for code in (3, 10, 33, 200, 299, 368, 131005, 131031, 131042, 131045, 133010)),
    (987654, 403, "hold"),
]


@pytest.mark.parametrize(("code", "status", "verdict"), TABLE)
def test_the_table_of_the_providers_codes(code: int, status: int, verdict: Verdict) -> None:
    found = read_reply(error(code, status), 0)
    assert isinstance(found, NotSent)
    assert found.verdict == verdict
    assert found.facts["code"] == code


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (400, "never"), (404, "never"), (401, "hold"), (403, "hold"), (408, "soon"), (429, "rate"),
        (500, "soon"), (503, "soon"), (502, "unknown"), (504, "unknown"), (302, "soon"), (200, "unknown"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_the_apis_own_goes_by_its_status(status: int, verdict: Verdict) -> None:
    for body in (b"", b"<html>", b"{}", b'{"error": "no"}', b'{"messages": []}'):
        found = read_reply(Reply(status, body), 0)
        assert isinstance(found, NotSent) and found.verdict == verdict


def test_no_answer_is_a_doubt_only_where_the_request_may_have_arrived() -> None:
    arrived = read_reply(NoReply("read_timeout: silent for 30 s", may_have_arrived=True), 0)
    refused = read_reply(NoReply("connection_refused: nobody listens", may_have_arrived=False), 0)
    assert isinstance(arrived, NotSent) and isinstance(refused, NotSent)
    assert (arrived.verdict, refused.verdict) == ("unknown", "soon")
    held = answer_of(arrived, 1, waits=0)
    assert isinstance(held, Hold) and held.code == "unknown_outcome"
    assert isinstance(answer_of(refused, 1, waits=0), Retry)


def test_what_was_taken_gives_the_providers_id() -> None:
    body = b'{"messaging_product":"whatsapp","contacts":[{}],"messages":[{"id":"wamid.1","x":2}],"new":1}'
    found = read_reply(Reply(200, body), 0)
    assert isinstance(found, Sent)
    answer = answer_of(found, 1, waits=0)
    assert isinstance(answer, Done) and answer.result == {"provider_message_id": "wamid.1"}


def test_never_is_dead_at_once_and_refused_credentials_hold() -> None:
    dead = answer_of(_not_sent(error(131026)), 1, waits=0)
    assert isinstance(dead, Dead) and dead.code == "whatsapp_131026"
    held = answer_of(_not_sent(error(190, 401)), 1, waits=0)
    assert isinstance(held, Hold) and held.code == "credentials_refused"


def _not_sent(reply: Reply) -> NotSent:
    found = read_reply(reply, 0)
    assert isinstance(found, NotSent)
    return found


def test_rate_limits_spend_no_attempt_the_first_times_and_wait_longer_each_time() -> None:
    for code, pace in ((130429, THROUGHPUT), (131056, PAIR), (131049, PATIENCE)):
        waits = []
        for number in range(pace.free + 1):
            answer = answer_of(_not_sent(error(code)), 1, waits=number)
            assert isinstance(answer, Retry) and answer.kind == "rate"
            assert answer.spends is (number >= pace.free)
            waits.append(answer.after_ms or 0)
        assert waits == sorted(waits) and waits[0] == pace.first_ms and waits[-1] <= pace.most_ms
    assert PATIENCE.first_ms == HOUR


def test_the_providers_advice_lengthens_a_wait_and_never_shortens_it() -> None:
    long = answer_of(_not_sent(error(131056, 429, **{"retry-after": "600"})), 1, waits=0)
    short = answer_of(_not_sent(error(131056, 429, **{"retry-after": "1"})), 1, waits=0)
    assert isinstance(long, Retry) and isinstance(short, Retry)
    assert (long.after_ms, short.after_ms) == (600 * SECOND, PAIR.first_ms)


def test_a_phone_in_the_providers_words_is_masked() -> None:
    found = _not_sent(error(131026, details="Message undeliverable to +5511988887777"))
    assert "988887777" not in found.reason


def test_waits_are_counted_from_the_records_that_no_attempt_explains() -> None:
    def job(copy: int) -> Job:
        return job_of(1, copy=copy)

    assert [free_waits(job(copy), attempt) for copy, attempt in ((0, 1), (2, 3), (3, 1), (0, 4))] == [
        0,
        0,
        3,
        0,
    ]


@given(st.integers(0, 999), st.binary(max_size=60), st.integers(0, 100), st.integers(1, 100))
def test_whatever_is_answered_the_job_gets_an_answer(
    status: int, body: bytes, waits: int, attempt: int
) -> None:
    found = read_reply(Reply(status, body), 0)
    assert answer_of(found, attempt, waits=waits) is not None


@pytest.mark.thorough
@given(st.integers(-(10**9), 10**9), st.integers(400, 599), st.integers(0, 1000))
def test_every_code_has_a_verdict(code: int, status: int, waits: int) -> None:
    answer = answer_of(_not_sent(error(code, status)), 1, waits=waits)
    if isinstance(answer, Retry) and answer.after_ms is not None:
        assert answer.after_ms <= 24 * HOUR


@pytest.mark.parametrize("missing", ["phone", "student_name", "group_link", "template_name"])
def test_a_payload_that_lacks_a_part_is_no_message(missing: str) -> None:
    whole = {
        "phone": "+5511988887777", "student_name": "Ana  \n Souza", "group_link": "https://x/y",
        "template_name": "t", "template_language": "pt_BR",
    }  # fmt: skip
    found = template_of(json.dumps(whole))
    assert found is not None and found.variables == ("Ana Souza", "https://x/y")
    assert "Ana" not in repr(found)
    assert template_of(json.dumps({**whole, missing: " " if missing == "student_name" else ""})) is None
    assert template_of(json.dumps({name: text for name, text in whole.items() if name != missing})) is None
