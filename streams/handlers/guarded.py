"""HTTP connections that are made to addresses which were looked at, and to no others.

The name is resolved once, its addresses are checked, and the connection is made to one of these: a DNS that
answers otherwise the next moment (rebinding) leads nowhere. TLS still asks for the name.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Final

import httpcore
import httpx
from httpcore import SOCKET_OPTION

from streams.handlers.names import Names
from streams.handlers.outgoing import Outgoing

_LONGEST_S: Final = 60.0


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx' transport, with connections as above; no proxy of the environment's.

    Args:
        trust: who vouches for HTTPS servers.
        limits: of the pool.
        outgoing: which addresses may be called.
        names: who resolves; its owner closes it.
    """

    def __init__(self, trust: ssl.SSLContext, limits: httpx.Limits, outgoing: Outgoing, names: Names) -> None:
        super().__init__(verify=trust, trust_env=False, limits=limits)
        # httpx takes no backend, httpcore's pool does; tests/integration/handlers/test_outgoing.py holds it
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trust,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Guarded(outgoing, names),
        )


class _Guarded(httpcore.AsyncNetworkBackend):
    """Where the connections of a pool come from."""

    def __init__(self, outgoing: Outgoing, names: Names) -> None:
        self._outgoing = outgoing
        self._names = names
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to one of a host's addresses, if all are allowed; raises Refused, or as httpcore does."""
        within_s = _LONGEST_S if timeout is None else timeout
        deadline = time.monotonic() + within_s
        self._outgoing.check_host(host)
        addresses = await self._names.addresses(host, within_s)
        if isinstance(addresses, str):
            raise httpcore.ConnectError(addresses)
        for address in addresses:  # one that is not allowed spoils the name: it is in doubtful hands
            self._outgoing.check_address(host, address)
        failed: Exception = httpcore.ConnectError("the name has no address")
        for place, address in enumerate(addresses):
            # who does not answer leaves as much time for each of the others
            left_s = max(deadline - time.monotonic(), 0.01) / (len(addresses) - place)
            try:
                return await self._network.connect_tcp(
                    address,
                    port,
                    timeout=left_s,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        self._names.forget(host)  # perhaps it has moved
        raise failed

    async def sleep(self, seconds: float) -> None:
        """Wait, between attempts of httpcore's."""
        await self._network.sleep(seconds)
