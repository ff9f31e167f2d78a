"""What the stages send goes through the application's producer (see `streams.ports.Outbox`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import faust

from settings import Settings
from streams.ports import Item


class AppOutbox:
    """An outbox of a Faust application whose transport is ours."""

    def __init__(self, app: faust.App, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        """Send to a topic, by its name without prefix; partition → highest offset once all are durable."""
        sent: asyncio.Future[dict[int, int]] = self._app.producer.send_batch(
            self._settings.topic(topic), items
        )
        return sent
