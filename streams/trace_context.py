"""One trace a job: every attempt, and the record of every attempt, is in the same one (pure).

W3C Trace Context, version 00. A record may have picked up several `traceparent` headers on its way through
other people's systems: the first that is well-formed counts, and one is sent on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from schemas.dead import Header
from telemetry.trace_ids import TRACEPARENT as TRACEPARENT
from telemetry.trace_ids import TRACESTATE, first_fitting, parent_in
from telemetry.trace_ids import is_traceparent as is_traceparent
from telemetry.trace_ids import own_traceparent as own_traceparent

_STATE = re.compile(rb"[\x21-\x7e][\x20-\x7e]{0,511}").fullmatch


def trace_headers(job_id: str, headers: Sequence[Header]) -> dict[str, str]:
    """The trace headers to send on for a job: exactly one `traceparent`, a `tracestate` if it came with one.

    Args:
        job_id: without a usable `traceparent` the trace is named after the job, so that attempts which know
            nothing of each other are in one trace all the same.
        headers: those of the job's record.
    """
    parent = parent_in(headers)
    if parent is None:
        return {TRACEPARENT: own_traceparent(job_id)}
    state = first_fitting(headers, TRACESTATE, _STATE)
    return {TRACEPARENT: parent} if state is None else {TRACEPARENT: parent, TRACESTATE: state}
