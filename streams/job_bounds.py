"""Reads a job whose record anybody may have written: its numbers must leave room to count on (pure).

A number at the end of Avro's `long` can be read, but not written one higher: the step that counts it up would
fail in every worker that gets the job. Such a record is as unreadable as one that is cut off.
"""

from __future__ import annotations

from typing import Final

from schemas.codec import decode_job
from schemas.errors import BadAvro
from schemas.records import Job

LARGEST: Final = 2**62
"""Of what counts steps and runs: half of the range is left for counting on."""
LARGEST_INT: Final = 2**31 - 2
"""Of attempts: the table's column is an `integer`."""
FARTHEST_MS: Final = 10**15 - 1
"""Of times: what has more digits is no time in ms (`streams.due`)."""

_LARGEST: Final = {
    "replay": LARGEST,
    "seq": LARGEST,
    "copy": LARGEST,
    "attempt": LARGEST_INT,
    "max_attempts": LARGEST_INT,
    "created_at_ms": FARTHEST_MS,
    "run_after_ms": FARTHEST_MS,
}


def read_job(value: bytes) -> Job:
    """The job in a record's value; raises Undecodable when there is none that can be run."""
    job = decode_job(value)
    for name, largest in _LARGEST.items():
        if not 0 <= getattr(job, name) <= largest:
            raise BadAvro("Job", f"{name} is {getattr(job, name)}, not within 0 and {largest}")
    return job
