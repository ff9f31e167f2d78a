"""What a record of the trigger topic asks for."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.reconcile.triggers import UnreadableTrigger, encode_trigger, request_of

PLACE = ("queue", 0, 7, 1_700_000_000_000)


def test_a_trigger_says_its_request() -> None:
    request = uuid4()
    assert request_of(encode_trigger(request), PLACE) == request


def test_a_trigger_of_others_is_known_by_its_place() -> None:
    one = request_of(b'{"by": "somebody"}', PLACE)
    assert request_of(b'{"by": "somebody"}', PLACE) == one
    assert request_of(b"{}", ("queue", 0, 8, 1_700_000_000_000)) != one


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff\x00", b"null", b"7", b'"text"', b"[]", b'{"request": 7}', b'{"request": "x"}', b"[" * 10**5],
)
def test_what_is_no_trigger_says_why_without_its_content(value: bytes) -> None:
    with pytest.raises(UnreadableTrigger, match=r"^it(s request)? is "):
        request_of(value, PLACE)


@given(st.binary())
def test_no_bytes_raise_anything_else(value: bytes) -> None:
    with suppress(UnreadableTrigger):
        assert isinstance(request_of(value, PLACE), UUID)
