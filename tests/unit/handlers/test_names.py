"""Names that can't be resolved hold up nobody but who wants them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from streams.handlers.names import Names


class Resolver:
    """The machine's resolver: knows `engine`, not `nobody`, and is silent about `silent`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.speak = threading.Event()

    def __call__(self, name: str, *_: object, **__: object) -> list[object]:
        self.asked.append(name)
        if name == "silent":
            self.speak.wait(10)
        if name == "nobody":
            raise socket.gaierror(-2, "Name or service not known")
        return []


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.speak.set()


async def test_a_known_name_is_asked_for_once(resolver: Resolver) -> None:
    names = Names()
    assert await asyncio.gather(*(names.unknown("engine", 30) for _ in range(50))) == [None] * 50
    assert await names.unknown("engine", 30) is None
    assert resolver.asked == ["engine"]
    names.close()


async def test_an_unknown_name_is_told_with_the_reason_and_asked_for_again_soon(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names()
    monkeypatch.setattr("streams.handlers.names.UNKNOWN_S", 0.0)
    for _ in range(2):
        assert await names.unknown("nobody", 30) == "Name or service not known"
    assert resolver.asked == ["nobody", "nobody"]
    names.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_an_address_is_no_name(resolver: Resolver, address: str) -> None:
    names = Names()
    assert await names.unknown(address, 30) is None and resolver.asked == []
    names.close()


async def test_a_silent_dns_holds_none_of_the_loops_threads(resolver: Resolver) -> None:
    names = Names()
    started = time.monotonic()
    told = await asyncio.gather(*(names.unknown("silent", 0.1) for _ in range(200)))
    assert set(told) == {"the DNS is silent for 0.1 s"} and resolver.asked == ["silent"]
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 1) == "free"
    assert await names.unknown("engine", 30) is None
    assert time.monotonic() - started < 2
    resolver.speak.set()
    for _ in range(100):
        if await names.unknown("silent", 1) is None:
            break
    names.close()
    assert resolver.asked == ["silent", "engine"]


async def test_one_who_gives_up_takes_the_answer_from_nobody(resolver: Resolver) -> None:
    names = Names()
    first, second = (asyncio.ensure_future(names.unknown("silent", 5)) for _ in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    resolver.speak.set()
    assert await second is None
    with pytest.raises(asyncio.CancelledError):
        await first
    names.close()
