"""A TCP proxy between a client and a server that can be slow, or fall silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


@dataclass
class Network:
    """Each direction delays what it forwards; a silent one forwards nothing and keeps connections open."""

    port: int
    delay_s: float = 0.0
    silent: bool = False


@asynccontextmanager
async def network_to(host: str, port: int) -> AsyncIterator[Network]:
    """A network on a port of its own that leads to `host:port`."""
    network = Network(0)
    tasks: set[asyncio.Task[None]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await line.get()
                await asyncio.sleep(max(due - loop.time(), 0))
                writer.write(data)
                await writer.drain()

        delivery = asyncio.ensure_future(deliver())
        try:
            while data := await reader.read(65_536):
                if not network.silent:
                    line.put_nowait((loop.time() + network.delay_s, data))
        finally:
            delivery.cancel()
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection(host, port)
            for task in (
                asyncio.ensure_future(forward(reader, far_writer)),
                asyncio.ensure_future(forward(far_reader, writer)),
            ):
                tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    network.port = server.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
