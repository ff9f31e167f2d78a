"""Schemas of somebody else, as a registry gives them: how their records are read (pure)."""

from __future__ import annotations

import json

import fastavro


def foreign_schema(text: str) -> object:
    """A record's schema as fastavro reads with it; what is no schema of a record raises any Exception.

    Logical types are left out: ids and times stay the text and numbers that they are in JSON.
    """
    schema = _plain(json.loads(text))
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("it describes no record")
    parsed: object = fastavro.parse_schema(schema)
    return parsed


def _plain(schema: object) -> object:
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema
