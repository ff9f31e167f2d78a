"""A WhatsApp number's rate: nobody sends faster, and who doesn't send after all takes no place."""

from __future__ import annotations

import asyncio
import time

from streams.handlers.paces import Paces


async def test_who_leaves_the_queue_has_taken_no_place() -> None:
    paces = Paces(20, lambda: 1.0)
    assert await paces.turn("n", 10)
    waiting = [asyncio.create_task(paces.turn("n", 10)) for _ in range(100)]
    await asyncio.sleep(0.02)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    begun = time.monotonic()
    assert await paces.turn("n", 10)
    assert time.monotonic() - begun < 0.5, "the next place, not the one after a hundred others"


async def test_they_send_in_their_order_at_the_rate_of_this_process_share() -> None:
    paces = Paces(400, lambda: 0.25)
    order: list[int] = []

    async def send(n: int) -> None:
        assert await paces.turn("n", 10)
        order.append(n)

    begun = time.monotonic()
    await asyncio.gather(*(send(n) for n in range(30)))
    assert order == list(range(30))
    assert time.monotonic() - begun >= 29 / 100 - 0.02


async def test_a_place_too_far_away_is_refused_at_once_and_not_taken() -> None:
    paces = Paces(0.5, lambda: 1.0)
    waiting = [asyncio.create_task(paces.turn("n", 10)) for _ in range(4)]
    await asyncio.sleep(0)
    assert await paces.turn("n", 9) is False
    assert await paces.turn("n", 1) is False
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await paces.turn("n", 0) is False
    await asyncio.sleep(0)


async def test_a_process_that_is_restarted_again_and_again_sends_no_faster() -> None:
    sent = 0
    for _ in range(20):
        paces = Paces(2, lambda: 1.0)
        try:
            async with asyncio.timeout(0.02):
                sent += await paces.turn("n", 10)
        except TimeoutError:
            pass
    assert sent == 0, "0.4 s in all, at two a second"


async def test_one_numbers_queue_is_not_anothers() -> None:
    paces = Paces(0.1, lambda: 1.0)
    one = asyncio.create_task(paces.turn("a", 20))
    await asyncio.sleep(0)
    assert await paces.turn("a", 15) is False
    assert paces._queues.keys() == {"a"}
    one.cancel()
    await asyncio.gather(one, return_exceptions=True)
