"""What is read stays encoded until it is used; whoever asks afterwards gets the same object."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.transport.values import Values

KEYS = st.sampled_from([b"a", b"b", b"c"])
VALUES = st.none() | st.lists(st.integers(0, 9), max_size=3)
STEPS = st.lists(st.tuples(st.sampled_from(["get", "peek", "put", "read", "change"]), KEYS, VALUES))


def encode(value):
    return json.dumps(value).encode()


@pytest.mark.thorough
@given(STEPS)
def test_it_is_a_mapping_whatever_is_decoded_when(steps):
    values, expected = Values(json.loads), {}
    for step, key, value in steps:
        if step in ("get", "peek"):
            assert getattr(values, step)(key) == expected.get(key)
        elif step == "change":
            mine = values.get(key)
            if mine is not None:
                mine.append(7)
                expected[key] = [*expected[key], 7]
        else:
            values.put(key, value) if step == "put" else values.read(
                key, None if value is None else encode(value)
            )
            expected[key] = value
            if value is None:
                del expected[key]
            else:
                expected[key] = list(value)
        assert dict(values.items()) == expected
        assert sorted(values) == sorted(expected)
        assert len(values) == len(expected)
        assert [key in values for key in (b"a", b"b", b"c")] == [k in expected for k in (b"a", b"b", b"c")]
        assert {key: values.encoded(key, encode) for key in values} == {
            key: encode(value) for key, value in expected.items()
        }


def test_whoever_gets_it_has_the_same_object_and_looking_keeps_nothing():
    decoded = []

    def decode(encoded):
        decoded.append(encoded)
        return json.loads(encoded)

    values = Values(decode, {b"a": b"[1]", b"b": b"[2]"})
    assert values.encoded(b"a", encode) == b"[1]"
    assert decoded == [], "what nobody used is written as it was read"
    assert values.peek(b"a") is not values.peek(b"a")
    mine = values.get(b"a")
    assert values.get(b"a") is mine and values.peek(b"a") is mine
    assert dict(values.items())[b"a"] is mine
    values.read(b"a", b"[3]")
    assert values.get(b"a") == [3], "what the changelog tells replaces it"


def test_what_cannot_be_decoded_stays_as_it_is():
    values = Values(json.loads, {b"a": b"no JSON"})
    for _ in range(2):
        with pytest.raises(ValueError, match="Expecting value"):
            values.get(b"a")
    assert values.encoded(b"a", encode) == b"no JSON"
