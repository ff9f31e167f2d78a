"""A TCP proxy that can be slow, between our processes and a server: a bad network that needs no rights."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Final, Self

_CHUNK: Final = 65_536
_START_S: Final = 10.0


class Network:
    """The way to `host:port`, on a port of its own; `delay_s` holds for each direction, at once.

    A `with` block runs it, in a thread. A server that is away refuses through it, too.
    """

    def __init__(self, host: str, port: int) -> None:
        self._far = host, port
        self.port = 0
        self.delay_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="network", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_START_S):
            raise TimeoutError("the slow network did not start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_S)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far)
        except OSError:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):  # asyncio's own server can't tell it from a failure
            await asyncio.gather(self._forward(reader, far_writer), self._forward(far_reader, writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=1_024)

        async def deliver() -> None:
            while True:
                due, data = await line.get()
                if not data:
                    return
                if (ahead := due - loop.time()) > 0:
                    await asyncio.sleep(ahead)
                writer.write(data)
                await writer.drain()

        delivery = asyncio.ensure_future(deliver())
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(_CHUNK):
                if delivery.done():
                    break
                await line.put((loop.time() + self.delay_s, data))
            await line.put((0.0, b""))
            await delivery
        delivery.cancel()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await delivery
        writer.close()
