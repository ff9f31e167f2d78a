"""Reading what a CRM's jsonb columns hold, whatever it is (pure)."""

from __future__ import annotations

import json

import orjson

_LONGEST_INTEGER = 64
"""Digits; longer ones are read as floats, since Python refuses to build integers of any length."""


def read_stored_json(text: str) -> object:
    """The value of a jsonb that came as text.

    Postgres stores numbers and nestings that no JSON library reads as they are: odd numbers become floats
    (infinite ones too), and what is nested too deeply raises ValueError.
    """
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = _read_odd(text)
    return value


def _read_odd(text: str) -> object:
    try:
        value: object = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)
