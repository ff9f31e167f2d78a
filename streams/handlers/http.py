"""One pool of HTTP connections for all handlers of a process: what is asked, read and refused.

Rules: spec/jobs.md, "Lanes". No call is longer than its total time, no answer larger than what is kept of it,
no request goes to another place than the one that the settings name: neither a redirect nor a proxy of the
environment nor a DNS that lies can send it there (`streams.handlers.outgoing`). Whatever goes wrong comes
back as a `NoReply` that says what.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import httpx

from settings import WrongSetting
from streams.handlers.guarded import GuardedTransport
from streams.handlers.http_faults import no_reply
from streams.handlers.names import Names
from streams.handlers.outgoing import Outgoing
from streams.handlers.replies import NoReply, Reply
from telemetry.tracing import traces

KEPT_BYTES: Final = 64 * 1024
"""So much of an answer's body is kept; one that is longer is not read on, and its connection is closed."""
IDLE_S: Final = 4.0
"""An idle connection is given up after this: most servers do so after 5 s, and who is first matters."""
SENT_AGAIN: Final = "Sent-Again"
"""Header of a request that is sent once more since its kept connection broke; its value is 1."""
MOST_REDIRECTS: Final = 3
CALLS_A_POOL: Final = 4
"""httpx looks through all connections of a pool for every request, in time that grows with their square: of
64 calls at a time most was spent there (`python -m bench.http`). So there are many small pools."""

_HEADERS: Final = {"User-Agent": "rajada", "Accept": "application/json", "Accept-Encoding": "identity"}
_REDIRECTS: Final = frozenset({307, 308})
"""Those that repeat the POST; the others would make a GET of it."""
_GZIP_OR_ZLIB: Final = 47


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a call may take, in seconds: until connected, of silence, and in all."""

    connect_s: float
    read_s: float
    total_s: float

    def as_dict(self) -> dict[str, float | None]:
        """As httpx takes them; it knows no total."""
        return {"connect": self.connect_s, "read": self.read_s, "write": self.read_s, "pool": None}


class HttpClient:
    """The pool. Made anywhere, used in one event loop, closed there.

    Args:
        ca_file: certificate authorities that are trusted besides the system's and Mozilla's (PEM).
        outgoing: where calls may go; by default to public addresses, and to those that a URL spells out.

    Raises:
        WrongSetting: `ca_file` holds no certificates.
    """

    def __init__(self, ca_file: Path | None = None, outgoing: Outgoing | None = None) -> None:
        self._trust = trusted(ca_file)
        self._pools: list[_Pool] = []
        self._names = Names()
        self._outgoing = outgoing or Outgoing()

    async def post(
        self, url: str, content: bytes, headers: Mapping[str, str], limits: Limits, *, repeatable: bool
    ) -> Reply | NoReply:
        """POST and read the beginning of the answer; never raises but CancelledError.

        Args:
            url: where to; a 307 or 308 to the same scheme, host and port is followed, three at most.
            content: the body.
            headers: besides the usual ones.
            limits: how long it may take.
            repeatable: the request has an idempotency key. Then one that met a kept connection which the
                server was just closing is sent once more at once, with the header `Sent-Again: 1`, instead of
                costing the job an attempt.
        """
        with traces().call(url, headers) as call:
            reply = await self._post(url, content, call.headers, limits, repeatable=repeatable)
            if isinstance(reply, Reply):
                call.answered(reply.status)
            else:
                call.answered(None, reply.reason.partition(":")[0])
            return reply

    async def _post(
        self, url: str, content: bytes, headers: Mapping[str, str], limits: Limits, *, repeatable: bool
    ) -> Reply | NoReply:
        path = _Path()
        pool = self._pool()
        pool.calls += 1
        try:
            async with asyncio.timeout(limits.total_s):
                request = httpx.Request(
                    "POST",
                    url,
                    content=content,
                    headers={**_HEADERS, **headers},
                    extensions={"timeout": limits.as_dict(), "trace": path},
                )
                self._outgoing.check_host(request.url.host)
                unknown = await self._names.unknown(request.url.host, limits.connect_s)
                if unknown is not None:
                    return NoReply(f"name_unknown: {unknown}", may_have_arrived=False)
                try:
                    return await _exchange(pool.transport, request)
                except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                    if path.connected or path.answered or not repeatable:
                        raise
                    request.headers[SENT_AGAIN] = "1"
                    return await _exchange(pool.transport, request)
        except Exception as error:
            return no_reply(error, limits, sent=path.sent)
        finally:
            pool.calls -= 1

    def _pool(self) -> _Pool:
        """The first pool that has room: few calls at a time find the same connections again."""
        for pool in self._pools:
            if pool.calls < CALLS_A_POOL:
                return pool
        pool = _Pool(self._trust, self._outgoing, self._names)
        self._pools.append(pool)
        return pool

    async def close(self) -> None:
        """Close all connections; calls under way end."""
        self._names.close()
        for pool in self._pools:
            await pool.transport.aclose()


class _Pool:
    """Some of the connections."""

    __slots__ = ("calls", "transport")

    def __init__(self, trust: ssl.SSLContext, outgoing: Outgoing, names: Names) -> None:
        # the transport alone: a client above it would keep cookies of one turn for the next; and no proxy:
        # jobs carry ids of people to the one place that was named
        self.transport = GuardedTransport(
            trust,
            httpx.Limits(
                # how many calls run at once is the executor's business
                max_connections=None,
                max_keepalive_connections=None,
                keepalive_expiry=IDLE_S,
            ),
            outgoing,
            names,
        )
        self.calls = 0
        """Under way."""


class _Path:
    """How far a request came, told by the connection pool (httpx' extension `trace`)."""

    __slots__ = ("answered", "connected", "sent")

    def __init__(self) -> None:
        self.connected = False
        """A connection was made for it: it did not use a kept one."""
        self.sent = False
        """Some of it may have left."""
        self.answered = False
        """An answer has begun."""

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.connected = True
        elif event == "http11.send_request_headers.started":
            self.sent = True
        elif event == "http11.receive_response_headers.complete":
            self.answered = True


def trusted(ca_file: Path | None) -> ssl.SSLContext:
    """Who is trusted to vouch for HTTPS servers: the system's authorities, Mozilla's (a slim container lacks
    its own), and those of `ca_file`. Raises WrongSetting when that holds none."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise WrongSetting(
                f"RAJADA_CA_FILE: {ca_file} holds no certificates in PEM form. Correct or unset it."
            ) from error
    return context


def _onward(asked: httpx.URL, response: httpx.Response) -> httpx.URL | None:
    """Where a redirect leads that is followed; None for any other answer."""
    if response.status_code not in _REDIRECTS:
        return None
    try:
        onward = asked.join(response.headers.get("location", ""))
    except (httpx.InvalidURL, ValueError):
        return None
    same = (onward.scheme, onward.host, _port(onward)) == (asked.scheme, asked.host, _port(asked))
    return onward if same and not onward.userinfo else None


def _port(url: httpx.URL) -> int | None:
    return url.port or {"http": 80, "https": 443}.get(url.scheme)


async def _exchange(transport: httpx.AsyncHTTPTransport, request: httpx.Request) -> Reply | NoReply:
    """Send, follow redirects to the same place, read."""
    for _ in range(MOST_REDIRECTS + 1):
        response = await transport.handle_async_request(request)
        try:
            onward = _onward(request.url, response)
            if onward is None:
                return await _read(response)
        finally:
            await response.aclose()
        request = httpx.Request(
            "POST", onward, content=request.content, headers=request.headers, extensions=request.extensions
        )
    return NoReply(f"redirect_loop: sent on more than {MOST_REDIRECTS} times")


async def _read(response: httpx.Response) -> Reply | NoReply:
    """The beginning of an answer. Its bytes are taken as they come, so that no decoder can blow them up."""
    body = bytearray()
    async with aclosing(cast("AsyncGenerator[bytes]", response.aiter_raw())) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > KEPT_BYTES:
                break
    headers = {name.lower(): value for name, value in response.headers.items()}
    cut = len(body) > KEPT_BYTES
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return Reply(response.status_code, bytes(body[:KEPT_BYTES]), headers, cut)
    return _decoded(response.status_code, bytes(body), headers, cut)


def _decoded(status: int, body: bytes, headers: Mapping[str, str], cut: bool) -> Reply | NoReply:
    """An answer that came encoded, though plain bytes were asked for."""
    decoder = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        plain = decoder.decompress(body, KEPT_BYTES)
    except zlib.error:
        return NoReply("unreadable_answer: it is encoded (content-encoding), though plain was asked for")
    return Reply(status, plain, headers, cut or bool(decoder.unconsumed_tail))
