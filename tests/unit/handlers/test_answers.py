"""What a handler answers carries no person's data and can be counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.handlers.answers import NO_REASON, Cancelled, Dead, Done, Hold, Retry, told


def test_b170_a_reason_is_the_first_line_at_most_300_characters() -> None:
    assert Dead("http_500: " + "x" * 1_000).reason == "http_500: " + "x" * 290
    assert Cancelled("first\nsecond").reason == "first"


@pytest.mark.parametrize("answer", [Retry, Cancelled, Dead, Hold])
def test_no_answer_can_be_made_with_personal_data_in_its_reason(
    answer: type[Retry | Cancelled | Dead | Hold],
) -> None:
    made = answer("http_422: ana@clinica.com.br and +55 11 98765-4321, token abc")
    assert made.reason == "http_422: ***@*** and ***, token ***"


@pytest.mark.thorough
@given(st.text(max_size=5_000))
def test_a_reason_is_one_line_never_empty_and_masking_it_again_changes_nothing(text: str) -> None:
    reason = told(text)
    assert 0 < len(reason) <= 300 and len(reason.splitlines()) == 1
    assert told(reason) == reason


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("http_503: Service Unavailable", "http_503"),
        ("http_503", "http_503"),
        ("not_eligible:human_owner", "not_eligible:human_owner"),
        ("engine: the flow is over", "engine"),
        ("A sentence: with a colon", "other"),
        ("", NO_REASON),
    ],
)
def test_reasons_are_counted_by_their_code(reason: str, code: str) -> None:
    assert Dead(reason).code == code


def test_answers_are_equal_by_what_they_say() -> None:
    assert Done() == Done(None, facts={})
    assert Retry("x") == Retry("x", None, True, "failure") != Retry("x", spends=False)
    assert hash(Dead("x")) == hash(Dead("x", facts={"http_status": 404}))
