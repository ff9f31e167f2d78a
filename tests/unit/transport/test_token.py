"""Tokens order owners, and a reader tells late writes apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.transport.token import HEADER, Reader, Token, succeed, token_of

tokens = st.builds(Token, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))


@given(tokens, tokens)
def test_encodings_compare_as_the_tokens_do(one, two):
    assert (one.encode() < two.encode()) == (one < two)
    assert Token.decode(one.encode()) == one


@given(st.none() | tokens, st.integers(0, 2**31 - 1))
def test_a_successor_is_above_all_that_was_read(highest, generation):
    token = succeed(highest.encode() if highest and highest.epoch < 2**32 - 1 else None, generation)
    assert token.generation == generation
    if highest and highest.epoch < 2**32 - 1:
        assert token > highest
        assert (token.epoch == highest.epoch) == (generation > highest.generation)


@pytest.mark.parametrize(
    "headers",
    [None, [], [("other", b"12345678")], [(HEADER, None)], [(HEADER, b"short")], [("token ", b"12345678")]],
)
def test_records_without_a_token_are_no_claim(headers):
    assert token_of(headers) is None
    reader = Reader()
    assert reader.accepts([(HEADER, Token(1, 1).encode())])
    assert reader.accepts(headers)
    assert reader.highest == Token(1, 1).encode()


@pytest.mark.thorough
@given(st.lists(tokens))
def test_a_reader_accepts_exactly_what_is_not_below_an_earlier_token(log):
    reader = Reader()
    accepted = [token for token in log if reader.accepts([("a", b""), (HEADER, token.encode())])]
    assert accepted == [token for i, token in enumerate(log) if token >= max(log[: i + 1])]
