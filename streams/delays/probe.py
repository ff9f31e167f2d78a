"""Reads Kafka's clock: writes to `dispatch.clock` and looks at the time that Kafka gave the record."""

from __future__ import annotations

import time
from typing import Final

import structlog
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from kafka_access import kafka_client
from settings import RajadaError
from streams.delays.broker_clock import BrokerClock

log = structlog.get_logger(__name__)

EVERY_S: Final = 10.0
"""From one reading to the next."""
AGAIN_S: Final = 0.5
"""After one that failed, or was slow, as the first is: each ms that a reading takes makes records late."""
SLOW_S: Final = 0.02
ANSWER_S: Final = 3.0
OLD_S: Final = 25.0
"""Without a reading for so long Kafka, or the leader of `dispatch.clock`, counts as away."""
JUMP_MS: Final = 1_000
"""A clock that was set by more than this is told."""


class ClockUnusable(RajadaError):
    """The topic `dispatch.clock` doesn't say what time it is on Kafka."""


class KafkaClock:
    """Kafka's clock, read every few seconds beside the work. `upkeep` has to be called often; one thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._clock = BrokerClock()
        self._asked_s: float | None = None
        self._next_s = 0.0
        self._failed_s = 0.0
        self._wrong = False
        self._producer = Producer(
            {
                **kafka_client(bootstrap),
                "linger.ms": 0,
                "message.timeout.ms": int(ANSWER_S * 1000),
                "reconnect.backoff.max.ms": 2_000,
                "allow.auto.create.topics": False,
                "log_level": 2,  # what it can't do shows in the age of the last reading
            }
        )

    def now_ms(self) -> float:
        """A moment that has passed on Kafka's clock, Unix ms; only after a first reading (`known`)."""
        now_ms = self._clock.now_ms(time.monotonic())
        assert now_ms is not None, "nothing is read from the delay topics before Kafka's time is known"
        return now_ms

    def monotonic_s(self) -> float:
        """Seconds of a clock that is never set."""
        return time.monotonic()

    @property
    def known(self) -> bool:
        """Whether there was a reading."""
        return self._clock.age_s(0.0) is not None

    def answers(self, since_s: float | None) -> bool:
        """Whether Kafka has answered lately, and after `since_s` (monotonic) if there was trouble then.

        After trouble it is asked anew at once.
        """
        now_s = time.monotonic()
        age_s = self._clock.age_s(now_s)
        if age_s is None or age_s > OLD_S:
            return False
        if since_s is None or now_s - age_s > since_s:
            return True
        self._next_s = min(self._next_s, self._failed_s + AGAIN_S)
        return False

    def upkeep(self, wait_s: float = 0.0) -> None:
        """Take an answer that has come, ask anew when it is time. Raises ClockUnusable."""
        now_s = time.monotonic()
        if self._asked_s is None and now_s >= self._next_s:
            self._asked_s = now_s
            try:
                self._producer.produce(self._topic, b"", on_delivery=self._answered)
            except (BufferError, KafkaException):
                self._again()
        self._producer.poll(wait_s)
        if self._wrong:
            raise ClockUnusable(
                f"The topic {self._topic} must have message.timestamp.type=LogAppendTime: set it with "
                "kafka-configs, or delete the topic and run `rajada topics ensure`."
            )

    def close(self) -> None:
        """Forget what is on its way."""
        self._producer.purge()
        self._producer.flush(1.0)

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        asked_s, took_s = self._asked_s, message.latency()
        if asked_s is None:
            return
        if error is not None or took_s is None:
            self._again()
            return
        # when the answer came, not when we looked for it
        answered_s = min(asked_s + took_s, time.monotonic())
        kind, append_ms = message.timestamp()
        self._wrong = kind != TIMESTAMP_LOG_APPEND_TIME
        if self._wrong:
            return
        believed = self._clock.now_ms(answered_s)
        self._clock.observe(append_ms, asked_s, answered_s)
        read = self._clock.now_ms(answered_s)
        if believed is not None and read is not None and abs(read - believed) > JUMP_MS:
            log.warning("kafka_clock_was_set", by_ms=round(read - believed))
        self._asked_s = None
        self._next_s = answered_s + (EVERY_S if took_s <= SLOW_S else AGAIN_S)

    def _again(self) -> None:
        self._asked_s = None
        self._failed_s = time.monotonic()
        self._next_s = self._failed_s + AGAIN_S
