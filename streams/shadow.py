"""What a worker in shadow mode has in the place of a real one's parts (docs/shadow.md).

It reads the topic that the installation's publisher writes, and all that it writes are topics of its own:
`settings.topic` gives it no other name. It runs no job, sweeps nothing, tells no alert, and its connections
to Postgres are read-only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_access import ANSWER_S, kafka_client, patiently
from schemas.topic_names import APP_ID, DEAD, JOBS, OUTCOMES, PARKING
from settings import Settings
from streams.contact import Window
from streams.ports import Item, Outbox
from streams.topics import TopicsUnusable, source_topic
from telemetry.readings import Source

log = structlog.get_logger(__name__)

WRITES: Final = frozenset({JOBS, OUTCOMES, DEAD, PARKING})


def written_below(partition: int) -> int:
    """No sink follows a shadow: whatever it has told counts as written (see `streams.written`)."""
    return 2**63 - 1


class ShadowOutbox:
    """An outbox that leaves out what would go to a topic that others read (see `streams.ports.Outbox`).

    That is an event that was produced by hand under a wrong key, and one that a newer version wrote: a worker
    puts those back.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        """Send to one of the shadow's own topics."""
        if topic in WRITES:
            return self._outbox.send(topic, items)
        log.warning("left_out_by_shadow", topic=topic, records=len(list(items)))
        left_out: asyncio.Future[dict[int, int]] = asyncio.get_running_loop().create_future()
        left_out.set_result({})
        return left_out


class NoJobs:
    """In the place of `streams.job_runner.JobRunner`: no job is run, no HTTP client is there."""

    def join(self) -> None:
        """No topic of jobs is read."""

    def made(self, job_id: str, window: Window, durable_ms: int) -> None:
        """A window became a job that nobody runs."""

    def background(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Nothing runs beside the agents."""
        return ()

    def told(self) -> dict[str, int | str]:
        """There is nothing to tell."""
        return {}

    def sources(self) -> tuple[Source, ...]:
        """There is nothing to count."""
        return ()

    def stop(self) -> None:
        """Nothing runs."""

    async def close(self) -> None:
        """Nothing is open."""


def begin_at_the_end(bootstrap: str, settings: Settings) -> int:
    """Give the shadow's group a place in partitions where it has none: the end of what is there now.

    The events before were decided long ago; their facts are others today. Returns how many partitions that
    were. Raises TopicsUnusable when Kafka does not answer.
    """
    consumer = Consumer(
        {
            **kafka_client(bootstrap),
            "group.id": settings.topic(APP_ID),
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    topic = source_topic(settings)
    try:
        described = patiently(lambda: consumer.list_topics(topic, ANSWER_S)).topics[topic]
        asked = [TopicPartition(topic, partition) for partition in described.partitions]
        known = patiently(lambda: consumer.committed(asked, ANSWER_S))
        unset = [one.partition for one in known if one.offset < 0]
        ends = [
            TopicPartition(topic, partition, _end(consumer, TopicPartition(topic, partition)))
            for partition in unset
        ]
        if ends:
            patiently(lambda: consumer.commit(offsets=ends, asynchronous=False))
    except KafkaException as error:
        raise TopicsUnusable(
            f"Kafka does not tell where {topic} ends: {error.args[0].str()}. Does another shadow run, or is "
            "a right missing (`rajada topics acls shadow`)?"
        ) from error
    finally:
        consumer.close()
    return len(unset)


def _end(consumer: Consumer, where: TopicPartition) -> int:
    _, end = patiently(lambda: consumer.get_watermark_offsets(where, ANSWER_S))
    return end
