"""What the answers of a server over HTTP mean for a job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.handlers.answers import NO_REASON, Answer, Cancelled, Dead, Done, Retry
from streams.handlers.replies import RESULT_BYTES, NoReply, Reply, answer_to

NOW = 1_764_500_000_000
JSON = {"content-type": "application/json"}


def said(
    status: int = 200,
    body: bytes | dict[str, object] = b"",
    attempt: int = 1,
    cut: bool = False,
    **headers: str,
) -> Answer:
    """What `status` with `body` means."""
    sent = json.dumps(body).encode() if isinstance(body, dict) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer_to(Reply(status, sent, named, cut), kind="inbound_turn", attempt=attempt, now_ms=NOW)


# -- the status


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_done(status: int) -> None:
    assert said(status) == Done(facts={"http_status": status})


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_go_away_by_itself_is_tried_again_and_spends(status: int) -> None:
    answer = said(status)
    assert isinstance(answer, Retry) and answer.spends and answer.after_ms is None
    assert answer.kind == ("rate" if status == 429 else "failure")
    assert answer.code == f"http_{status}"


@pytest.mark.parametrize("status", [409, 410])
def test_b171_conflict_and_gone_cancel_without_alarm(status: int) -> None:
    assert isinstance(said(status), Cancelled)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 415, 422, 451, 499])
def test_any_other_4xx_is_dead_at_once_with_the_reason(status: int) -> None:
    answer = said(status, {"detail": "no such tenant"})
    assert answer == Dead(f"http_{status}: no such tenant", facts={"http_status": status})


def test_b172_b181_out_of_credit_spends_no_attempt() -> None:
    answer = said(402, retry_after="5")
    assert isinstance(answer, Retry)
    assert (answer.spends, answer.kind, answer.after_ms) == (False, "credit", None)


@pytest.mark.parametrize("status", [101, 104, 301, 302, 303, 304, 307, 308, 600, 999])
def test_what_makes_no_sense_here_is_tried_again(status: int) -> None:
    assert isinstance(said(status), Retry)


def test_no_answer_is_tried_again() -> None:
    nothing = answer_to(NoReply("timeout: none in 5 s"), kind="inbound_turn", attempt=2, now_ms=NOW)
    assert nothing == Retry("timeout: none in 5 s")


@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_retry_after_is_heeded(status: int) -> None:
    def wait(attempt: int, value: str) -> int | None:
        answer = said(status, attempt=attempt, retry_after=value)
        assert isinstance(answer, Retry)
        return answer.after_ms

    assert wait(1, "3") == 3_000
    assert wait(1, "Sun, 30 Nov 2025 11:00:00 GMT") == 1_764_500_400_000 - NOW
    assert wait(3, "3") == 40_000, "the second time it only lengthens the backoff"
    assert wait(3, "300") == 300_000
    assert wait(3, "soon") is None


# -- the reason


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b'{"reason": "over quota", "detail": "x"}', "application/json", "http_500: over quota"),
        (b'{"error": {"message": "model overloaded"}}', "application/json", "http_500: model overloaded"),
        (b'{"error": {"code": 3}, "message": "m"}', "application/problem+json", "http_500: m"),
        (b'{"title": "Nope"}', "", "http_500: Nope"),
        (b"\xef\xbb\xbf{\"title\": \"Nope\"}", "", "http_500: Nope"),
        (b"worker died\nTraceback", "text/plain; charset=utf-8", "http_500: worker died"),
        (b"<html><p>Ana said hello</p></html>", "text/html", "http_500: Internal Server Error"),
        (b'{"reason": 5, "error": null}', "application/json", "http_500: Internal Server Error"),
        (b'{"reason": "cu', "application/json", "http_500: Internal Server Error"),
        (b"", "", "http_500: Internal Server Error"),
    ],
)  # fmt: skip
def test_the_reason_of_an_error_is_what_the_server_says_of_it(
    body: bytes, content_type: str, reason: str
) -> None:
    answer = said(500, body, content_type=content_type)
    assert isinstance(answer, Retry) and answer.reason == reason


def test_a_status_without_a_name_has_a_reason_too() -> None:
    assert said(499) == Dead("http_499: not a status of HTTP", facts={"http_status": 499})


# -- the decision


def test_b171_a_veto_is_cancelled_whatever_the_attempt() -> None:
    answer = said(body={"decision": "cancelled", "reason": "conversation_closed"}, attempt=1)
    assert answer == Cancelled("conversation_closed", facts={"http_status": 200})
    assert isinstance(said(body={"decision": " Cancelled "}), Cancelled)


def test_a_sentence_as_the_reason_gets_the_code_engine() -> None:
    answer = said(body={"decision": "cancelled", "reason": "A person took over"})
    assert isinstance(answer, Cancelled)
    assert (answer.reason, answer.code) == ("engine: A person took over", "engine")


@pytest.mark.parametrize(
    ("asked", "wait"),
    [(5_000, 5_000), (0, 1_000), (10**12, 3_600_000), (1500.5, 1_500), (10**400, 3_600_000),
     (-1, None), ("5000", None), (None, None), (True, None), ([5], None)],
)  # fmt: skip
def test_a_decision_to_retry_waits_as_it_says_within_bounds(asked: object, wait: int | None) -> None:
    answer = said(body={"decision": "retry", "retry_after_ms": asked, "reason": "busy"}, attempt=3)
    assert answer == Retry("busy", wait, facts={"http_status": 200})
    assert isinstance(answer, Retry) and answer.spends


def test_a_decision_without_a_reason_says_so() -> None:
    answer = said(body={"decision": "retry"})
    assert isinstance(answer, Retry) and answer.reason == NO_REASON


@pytest.mark.parametrize(
    "body",
    [b"", b"OK", b"null", b"true", b"[]", b"[1, 2]", b'"done"', b"{}", b'{"id": 7}', b'{"decision": null}',
     b'{"decision": "done"}', b'{"decision": " DONE\\n", "reason": "x"}', b"<html>decision</html>",
     b"{oh no", b"\xff\xfe", b"[" * 60_000],
)  # fmt: skip
def test_a_2xx_that_names_no_other_decision_is_done(body: bytes) -> None:
    assert isinstance(said(200, body), Done)
    assert isinstance(said(200, body, content_type="text/html"), Done)


@pytest.mark.parametrize(
    "body",
    [b'{"decision": "retri"}', b'{"decision": ""}', b'{"decision": 5}', b'{"decision": ["retry"]}',
     b'{"decision": {"name": "done"}}', b'{"decision": "failed"}', b"{'decision': 'retry'}",
     b'{"decision": "retry"', b'{"decision": "retry"} trailing', b'[{"decision": "retry"}]',
     b'{"decision": "retry", "reason": "' + b"x" * 70_000, b'{"decision": "retry", "x": \xff}'],
)  # fmt: skip
def test_a_decision_that_can_not_be_understood_is_tried_again_and_never_lost(body: bytes) -> None:
    answer = said(200, body, content_type="application/json")
    assert isinstance(answer, Retry) and answer.spends and answer.code == "bad_decision"


def test_an_answer_that_was_cut_off_and_named_no_decision_is_done() -> None:
    assert said(200, b'{"transcript": "xxx', cut=True) == Done(facts={"http_status": 200, "answer_cut": True})


def test_a_decision_in_an_error_does_not_count() -> None:
    assert isinstance(said(503, {"decision": "cancelled"}), Retry)
    assert isinstance(said(404, {"decision": "retry"}), Dead)


def test_done_gives_back_a_small_result() -> None:
    assert said(body={"decision": "done", "result": {"provider_message_id": "m1"}}) == Done(
        {"provider_message_id": "m1"}, facts={"http_status": 200}
    )
    large = said(body={"result": {"text": "x" * RESULT_BYTES}})
    assert large == Done(facts={"http_status": 200, "result_too_large": True})
    assert said(body={"result": ["m1"]}) == Done(facts={"http_status": 200})


@pytest.mark.thorough
@given(
    st.integers(100, 999),
    st.binary(max_size=300) | st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(
            st.sampled_from(["decision", "retry_after_ms", "reason", "result", "error", "x"]), inner),
    ).map(lambda value: json.dumps(value).encode()),
    st.sampled_from(["", "application/json", "text/plain"]),
    st.integers(1, 9),
)  # fmt: skip
def test_every_answer_of_every_server_means_something(
    status: int, body: bytes, content_type: str, attempt: int
) -> None:
    answer = said(status, body, attempt, content_type=content_type)
    if not isinstance(answer, Done):
        assert answer.reason and answer.code
    if not 200 <= status < 300:
        assert not isinstance(answer, Done), "nothing is taken for done that nobody said is"
