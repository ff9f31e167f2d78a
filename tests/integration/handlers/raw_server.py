"""Small servers that speak HTTP as badly as a test wants, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Speak = Callable[["Talk"], Awaitable[None]]


@dataclass(slots=True)
class Talk:
    """One request on a connection."""

    head: str
    body: bytes
    writer: asyncio.StreamWriter
    number: int
    """Which request of the server this is, from 1."""
    on_connection: int
    """Which one of its connection, from 1."""

    async def say(self, *pieces: bytes) -> None:
        """Send bytes as they are."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    def hang_up(self) -> None:
        """Break the connection, as a process that died does."""
        self.writer.transport.abort()


@dataclass(slots=True)
class Raw:
    """A server and what it saw."""

    url: str = ""
    connections: int = 0
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    broken_off: int = 0
    """Connections that the client ended while it was spoken to."""


@asynccontextmanager
async def raw_server(speak: Speak, tls: ssl.SSLContext | None = None) -> AsyncIterator[Raw]:
    """A server on a free port that reads requests and lets `speak` answer each."""
    raw = Raw()
    talking: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        raw.connections += 1
        on_connection = 0
        try:
            while head := await _head(reader):
                length = next(
                    (int(line.split(":")[1]) for line in head.lower().splitlines()
                     if line.startswith("content-length:")), 0,
                )  # fmt: skip
                body = await reader.readexactly(length)
                raw.requests.append((head, body))
                on_connection += 1
                await speak(Talk(head, body, writer, len(raw.requests), on_connection))
        except (ConnectionError, asyncio.IncompleteReadError):
            raw.broken_off += 1
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            talking.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    raw.url = f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{port}/turns"
    try:
        yield raw
    finally:
        server.close()
        for task in tuple(talking):
            task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*talking, return_exceptions=True), 5)


async def _head(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return ""


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
