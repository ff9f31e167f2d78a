"""The top level of JSON of any depth: as a decoder reads it where one can."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.deep_json import top_level

DEEP = '{"a": [' * 9_000 + "1" + "]}" * 9_000

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.thorough
@given(st.dictionaries(st.text(), values, max_size=6), st.sampled_from([None, 1]), st.booleans())
def test_members_are_those_that_a_decoder_finds(
    told: dict[str, object], indent: int | None, plain: bool
) -> None:
    text = json.dumps(told, indent=indent, ensure_ascii=plain)
    found = top_level(text)
    assert found is not None
    assert {name: json.loads(value) for name, value in found.items()} == told


@pytest.mark.thorough
@given(values.filter(lambda value: not isinstance(value, dict)))
def test_what_is_no_object_has_no_members(value: object) -> None:
    assert top_level(json.dumps(value)) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "}",
        '{"a": [}',
        '{"a": 1}}',
        '{"a": 1} {}',
        '{"a": "}',
        "[]",
        '"{}"',
        "1{}",
        "{}1",
        '{"a": "\\',
    ],
)
def test_broken_text_has_none(text: str) -> None:
    assert top_level(text) is None


def test_what_no_database_holds_is_given_up_soon() -> None:
    assert top_level("[" * 4_000_000) is None
    assert top_level('{"a":' * 800_000) is None


def test_depth_does_not_matter() -> None:
    assert top_level(f'{{"deep": {DEEP}, "x": "y"}}') == {"deep": DEEP, "x": '"y"'}
