"""One trace a job: every attempt, and the record of every attempt, is in the same one (pure).

W3C Trace Context, version 00. A record may have picked up several `traceparent` headers on its way through
other people's systems: the first that is well-formed counts, and one is sent on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from schemas.dead import Header

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_WELL_FORMED = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
).fullmatch
_STATE = re.compile(rb"[\x21-\x7e][\x20-\x7e]{0,511}").fullmatch


def trace_headers(job_id: str, headers: Sequence[Header]) -> dict[str, str]:
    """The trace headers to send on for a job: exactly one `traceparent`, a `tracestate` if it came with one.

    Args:
        job_id: without a usable `traceparent` the trace is named after the job, so that attempts which know
            nothing of each other are in one trace all the same.
        headers: those of the job's record.
    """
    parent = _first(headers, TRACEPARENT, _WELL_FORMED)
    if parent is None:
        return {TRACEPARENT: own_traceparent(job_id)}
    state = _first(headers, TRACESTATE, _STATE)
    return {TRACEPARENT: parent} if state is None else {TRACEPARENT: parent, TRACESTATE: state}


def is_traceparent(value: bytes) -> bool:
    """Whether a header's value is a well-formed `traceparent`."""
    return _WELL_FORMED(value) is not None


def own_traceparent(job_id: str) -> str:
    """The `traceparent` of a job that came without one; sampled, since nobody said that it should not be."""
    digest = hashlib.sha256(job_id.encode()).hexdigest()
    try:
        trace = UUID(job_id)
    except ValueError:
        trace = UUID(int=0)
    return f"00-{trace.hex if trace.int else digest[16:48]}-{digest[:16]}-01"


def _first(headers: Sequence[Header], name: str, fits: Callable[[bytes], object]) -> str | None:
    """The first header of that name whose value is as it must be."""
    for key, value in headers:
        if value is not None and key.lower() == name and fits(value):
            return value.decode("ascii")
    return None
