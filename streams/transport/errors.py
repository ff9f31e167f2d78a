"""The transport's errors. Pure."""

from __future__ import annotations


class TransportError(Exception):
    """Base of the transport's errors; its message says what to do next."""


class LeaseLost(TransportError):
    """This worker may have been replaced and must not write: end the process, let another one take over."""


class FenceRefused(TransportError):
    """The group coordinator didn't confirm that the partitions are ours: end the process, drop the work."""


class NotOwned(TransportError):
    """A key was written in a partition that this worker doesn't own: stop such work in `when_revoked`."""


class StateIncomplete(TransportError):
    """A table's state isn't what its changelog holds: end the process, recovery starts from the beginning."""
