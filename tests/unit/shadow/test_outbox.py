"""A shadow sends to its own topics alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from schemas.delayed import WAITS_IN
from schemas.topic_names import CONTROL, DEAD, GROUP_LINKS, JOBS, OUTCOMES, PARKING, SOURCE
from streams.ports import Item
from streams.shadow import ShadowOutbox
from streams.topics import SHADOW_TOPICS

ITEM: Item = (b"k", b"v", 0, None)


class Sent:
    def __init__(self) -> None:
        self.topics: list[str] = []

    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        self.topics.append(topic)
        done: asyncio.Future[dict[int, int]] = asyncio.get_running_loop().create_future()
        done.set_result({0: 7})
        return done


async def test_what_would_go_to_others_is_left_out_and_nobody_waits_for_it() -> None:
    sent = Sent()
    outbox = ShadowOutbox(sent)
    for topic in (JOBS, OUTCOMES, DEAD, PARKING):
        assert await outbox.send(topic, [ITEM]) == {0: 7}
    for topic in (SOURCE, GROUP_LINKS, CONTROL, WAITS_IN):
        assert await outbox.send(topic, [ITEM]) == {}
    assert sent.topics == [JOBS, OUTCOMES, DEAD, PARKING]
    assert set(sent.topics) <= {topic.name for topic in SHADOW_TOPICS}, "and all of them are made"
