"""What the names of servers lead to, asked in threads of its own.

A DNS that is silent holds the thread that asks it for half a minute. The event loop's threads are few, and
everything that can't be awaited runs in them: they must not all stand there because nobody finds an engine.
So a name is asked for here, once for all who want it, and connections are made to the addresses that were
found (`streams.handlers.guarded`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

KNOWN_S: Final = 30.0
UNKNOWN_S: Final = 1.0
_THREADS: Final = 2

Told: TypeAlias = tuple[str, ...] | str
"""The addresses of a name, in the resolver's order, or why there are none."""


class Names:
    """Remembers which names are known: for 30 s, or for 1 s that one is not."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="names")
        self._told: dict[str, tuple[float, Told]] = {}
        """Name → until when it holds, what it is."""
        self._asked: dict[str, asyncio.Future[Told]] = {}
        """Under way."""

    async def unknown(self, name: str, within_s: float) -> str | None:
        """Why a name can't be resolved; None: it can, or is an address. Waits no longer than `within_s`."""
        told = await self.addresses(name, within_s)
        return told if isinstance(told, str) else None

    async def addresses(self, name: str, within_s: float) -> Told:
        """What a name leads to; an address leads to itself. Waits no longer than `within_s`."""
        told = self._told.get(name)
        if told is not None and told[0] > time.monotonic():
            return told[1]
        asked = self._asked.get(name)
        if asked is None:
            if _is_address(name):
                return (name,)
            asked = asyncio.ensure_future(self._ask(name))
            self._asked[name] = asked
        done, _ = await asyncio.wait({asked}, timeout=within_s)
        return asked.result() if done else f"the DNS is silent for {within_s:g} s"

    def forget(self, name: str) -> None:
        """What was told of it did not help: ask anew the next time."""
        self._told.pop(name, None)

    async def _ask(self, name: str) -> Told:
        try:
            told = await asyncio.get_running_loop().run_in_executor(self._threads, resolved, name)
        finally:
            del self._asked[name]
        self._told[name] = time.monotonic() + (UNKNOWN_S if isinstance(told, str) else KNOWN_S), told
        return told

    def close(self) -> None:
        """Ask nobody any more; a thread that waits for the DNS ends when that does."""
        for asked in tuple(self._asked.values()):
            asked.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def resolved(name: str) -> Told:
    """What the machine's resolver says of a name or an address; it may take its time."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error.strerror or type(error).__name__
    except UnicodeError:
        return "it is no host's name"
    return tuple(dict.fromkeys(str(address[4][0]) for address in found))
