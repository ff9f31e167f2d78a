"""Why no answer came over HTTP: a code to count by, and words that tell where to look."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import Protocol

import httpx

from streams.handlers.outgoing import Refused
from streams.handlers.replies import NoReply


class Times(Protocol):
    """How long a call may take, in seconds."""

    @property
    def connect_s(self) -> float:
        """Until it is connected."""

    @property
    def read_s(self) -> float:
        """Of silence."""

    @property
    def total_s(self) -> float:
        """In all."""


def no_reply(error: Exception, times: Times, *, sent: bool) -> NoReply:
    """What an exception of a call means.

    Args:
        error: what the call raised: an error of httpx, Refused, or TimeoutError for its total time.
        times: the limits that it had.
        sent: whether some of the request may have left.
    """
    if isinstance(error, Refused):
        return NoReply(str(error), False)
    if isinstance(error, TimeoutError):
        return NoReply(f"timeout: no whole answer within {times.total_s:g} s", sent)
    if isinstance(error, httpx.ConnectTimeout):
        return NoReply(f"connect_timeout: no connection within {times.connect_s:g} s", False)
    if isinstance(error, httpx.ReadTimeout):
        return NoReply(f"read_timeout: silent for {times.read_s:g} s", sent)
    if isinstance(error, httpx.WriteTimeout):
        return NoReply(f"write_timeout: the request was not taken within {times.read_s:g} s", sent)
    if isinstance(error, httpx.ConnectError):
        return NoReply(_unconnected(error), False)
    if isinstance(error, httpx.RemoteProtocolError):
        return NoReply(f"broken_answer: {error}", sent)
    if isinstance(error, httpx.NetworkError):
        return NoReply("disconnected: the connection broke before the answer was whole", sent)
    return NoReply(f"not_sent: {type(error).__name__}: {error}", sent)


def _unconnected(error: httpx.ConnectError) -> str:
    """Why there is no connection, from the causes below what the library says."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"certificate: {cause.verify_message}; RAJADA_CA_FILE names an authority of your own"
        if isinstance(cause, ssl.SSLError):
            return f"tls: {cause.reason or 'the handshake failed'}"
        if isinstance(cause, socket.gaierror):
            return f"name_unknown: {cause.strerror}"
        if isinstance(cause, ConnectionRefusedError):
            return "connection_refused: nobody listens there"
    last = causes[-1]
    told = last.strerror if isinstance(last, OSError) and last.strerror else str(last)
    return f"connect_failed: {told or type(last).__name__}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that led to it."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _causes(part)
    cause = error.__cause__ or error.__context__
    if cause is not None:
        yield from _causes(cause)
