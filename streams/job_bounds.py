"""Reads jobs and commands that anybody may have written: numbers leave room to count on, names are short.

A number at the end of Avro's `long` can be read, but not written one higher: the step that counts it up would
fail in every worker that gets the job. Such a record is as unreadable as one that is cut off. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from schemas.codec import decode_command, decode_job
from schemas.errors import BadAvro
from schemas.masking import masked
from schemas.records import Command, Job

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

LONGEST_NAME: Final = 1_000
"""Of what a command is known by and about: bytes of ids and of who gave it."""
LONGEST_KEY: Final = 1_000
"""Bytes of a contact's key: it stands in all that is written for the contact."""


def read_job(value: bytes) -> Job:
    """The job in a record's value; raises Undecodable when there is none that can be run."""
    job = decode_job(value)
    for name, largest in _LARGEST.items():
        if not 0 <= getattr(job, name) <= largest:
            raise BadAvro("Job", f"{name} is {getattr(job, name)}, not within 0 and {largest}")
    return job


def read_command(value: bytes) -> Command:
    """The command in a record's value, its reason as it may be stored; raises Undecodable when there is none
    that can be carried out."""
    command = decode_command(value)
    for name in ("id", "organization_id", "job_id", "issued_by"):
        if len(getattr(command, name) or "") > LONGEST_NAME:
            raise BadAvro("Command", f"{name} is longer than {LONGEST_NAME:,}")
    if command.action == "settle" and len(command.reason or "") > LONGEST_NAME:
        raise BadAvro("Command", f"the message's id is longer than {LONGEST_NAME:,}")
    if command.action == "settle" or command.reason is None:  # of that one it is an id, to be kept as it is
        return command
    return msgspec.structs.replace(command, reason=masked(command.reason))
