"""What a record of the trigger topic asks for (pure).

A trigger is a JSON object; its `request` (a UUID) says which triggers are one and the same request. Without
it the record's place in the log does, so that a record that is read twice asks once.
"""

from __future__ import annotations

import json
from uuid import UUID, uuid5

_PLACES = UUID("6f1d2c1e-3a0b-5c55-9a0e-2b7a54c7d7f0")


class UnreadableTrigger(ValueError):
    """The record is no trigger; the text says why, without the record's content."""


def encode_trigger(request: UUID) -> bytes:
    """A trigger with this request."""
    return json.dumps({"request": str(request)}).encode()


def request_of(value: bytes, place: tuple[str, int, int, int]) -> UUID:
    """The request of a trigger.

    Args:
        value: the record's value.
        place: topic, partition, offset and time stamp (ms) of the record.

    Raises:
        UnreadableTrigger: it is not a JSON object, or its request is no UUID.
    """
    try:
        told = json.loads(value)
    except (ValueError, RecursionError):
        raise UnreadableTrigger("it is not JSON") from None
    if not isinstance(told, dict):
        raise UnreadableTrigger("it is not a JSON object")
    request = told.get("request")
    if request is None:
        return uuid5(_PLACES, ":".join(str(part) for part in place))
    try:
        return UUID(request)
    except (ValueError, AttributeError, TypeError):
        raise UnreadableTrigger("its request is no UUID") from None
