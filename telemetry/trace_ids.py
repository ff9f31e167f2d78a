"""Names of traces: W3C Trace Context, version 00 (pure).

A trace that nobody has named is named after what it is about, a job or an event. So processes that know
nothing of each other, and attempts of one job, come to the same name without sending it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

Header = tuple[str, bytes | None]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_WELL_FORMED = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
).fullmatch


def is_traceparent(value: bytes) -> bool:
    """Whether a header's value is a well-formed `traceparent`."""
    return _WELL_FORMED(value) is not None


def own_ids(name: str) -> tuple[str, str]:
    """Trace and span, in hexadecimal, of what has this id: the trace is the id itself where it is a UUID."""
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()
    try:
        trace = UUID(name)
    except ValueError:
        trace = UUID(int=0)
    return trace.hex if trace.int else digest[16:48], digest[:16]


def own_traceparent(name: str, *, sampled: bool = True) -> str:
    """The `traceparent` of what came without one; sampled, unless somebody said that it should not be."""
    trace, span = own_ids(name)
    return f"00-{trace}-{span}-{'01' if sampled else '00'}"


def parent_in(headers: Sequence[Header]) -> str | None:
    """The first well-formed `traceparent` of a record: it may have picked up several on its way."""
    return first_fitting(headers, TRACEPARENT, is_traceparent)


def first_fitting(headers: Sequence[Header], name: str, fits: Callable[[bytes], object]) -> str | None:
    """The first header of a name whose value is as it must be."""
    for key, value in headers:
        if value is not None and key.lower() == name and fits(value):
            return value.decode("ascii")
    return None


def with_one_parent(headers: Sequence[Header]) -> list[Header]:
    """The headers with the `traceparent` that counts, and no second one; all others as they are."""
    named = sum(key.lower() == TRACEPARENT for key, _ in headers)
    if named < 2:
        return list(headers)
    parent = parent_in(headers)
    kept = [one for one in headers if one[0].lower() != TRACEPARENT]
    return kept if parent is None else [*kept, (TRACEPARENT, parent.encode())]
