"""What jsonb columns may hold, numbers and nestings that JSON libraries refuse included."""

from __future__ import annotations

import math

import pytest

from streams.stored_json import read_stored_json


def test_plain_values() -> None:
    assert read_stored_json('{"a": [1, -2.5, "x", null, true]}') == {"a": [1, -2.5, "x", None, True]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1" * 30, 111111111111111111111111111111),
        ("1" + "0" * 400, math.inf),
        ("-" + "9" * 6000, -math.inf),
        ("1.5e400", math.inf),
        ('{"a": ' + "1" * 5000 + ', "b": "kept"}', {"a": math.inf, "b": "kept"}),
    ],
)
def test_numbers_of_any_length(text: str, value: object) -> None:
    assert read_stored_json(text) == pytest.approx(value) if not isinstance(value, dict) else value


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "{", "", "nul"])
def test_what_nobody_can_read_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_stored_json(text)
