"""Jobs that this process has just sent: it gets most of them back, and need not read them anew (pure).

The jobs of a contact go to the partition that its events came from, so the worker that decides them is the
one that runs them, unless the partitions have moved meanwhile. To decode one takes as long as half of its
intake otherwise.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from schemas.records import Job

MOST: Final = 4_096
LARGEST: Final = 4_096
"""Bytes of a record that is kept: with `MOST` of them it is 16 MiB at most, and as much for their objects."""


class JustMade:
    """The newest jobs by the bytes of their records; each is given once."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[bytes, Job] = OrderedDict()

    def note(self, value: bytes, job: Job) -> None:
        """`value` is what `schemas.codec.encode_job` gave for the job."""
        if len(value) <= LARGEST:
            self._jobs[value] = job
            if len(self._jobs) > MOST:
                self._jobs.popitem(last=False)

    def take(self, value: bytes) -> Job | None:
        """The job of a record with these bytes; None: it was not made here, or too long ago."""
        return self._jobs.pop(value, None)
