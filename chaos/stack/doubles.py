"""Records of events that come twice, late, or in another order: sent beside the publisher's own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal

import orjson
from confluent_kafka import Producer

from chaos.stack.books import Put
from chaos.stack.recorder import Recorder
from schemas.topic_names import SOURCE

How = Literal["twice", "late", "disorder"]
LATE_S: Final = 5.0
POLL_S: Final = 0.05


class Doubles:
    """Sends records of what the recorder writes, as the publisher would, whichever of them comes first."""

    def __init__(self, bootstrap: str, topic: str, recorder: Recorder) -> None:
        self._topic, self._recorder = topic, recorder
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "log_level": 0,
             "linger.ms": 0, "message.timeout.ms": 30_000}
        )  # fmt: skip
        self._how: set[How] = set()
        self._later: deque[tuple[float, Put]] = deque()
        self._stop = threading.Event()
        self._sender = threading.Thread(target=self._send_later, name="doubles", daemon=True)
        self._sender.start()
        recorder.after_write = self._written

    def send(self, how: How) -> Callable[[], None]:
        """Begin; gives what ends it."""
        self._how.add(how)
        return lambda: self._how.discard(how)

    def close(self) -> None:
        """End; what was to come late doesn't come."""
        self._recorder.after_write = None
        self._stop.set()
        self._sender.join(5)
        self._producer.flush(5)

    def _written(self, burst: Sequence[Put]) -> None:
        if "disorder" in self._how:
            for one in reversed(burst):
                self._produce(one)
        if "twice" in self._how:
            for one in burst:
                self._produce(one)
        if "late" in self._how:
            self._later.extend((time.monotonic() + LATE_S, one) for one in burst)

    def _send_later(self) -> None:
        while not self._stop.wait(POLL_S):
            self._producer.poll(0)
            while self._later and self._later[0][0] <= time.monotonic():
                self._produce(self._later.popleft()[1])

    def _produce(self, one: Put) -> None:
        organization = self._recorder.clinic.organization_id
        row = {
            "id": one.event_id,
            "organization_id": organization,
            "event_type": SOURCE,
            "entity_kind": "message",
            "entity_id": one.message_id,
            "payload": {
                "conversation_id": one.conversation_id,
                "contact_id": one.contact_id,
                "channel_session_id": self._recorder.clinic.session_id,
                "inbound_message_id": one.message_id,
            },
            "status": "pending",
        }
        headers: list[tuple[str, str | bytes | None]] = [
            ("cdc_op", b"c"), ("cdc_source_ts_ms", b"%d" % one.after_ms),
            ("event_id", one.event_id.encode()), ("event_type", SOURCE.encode()),
        ]  # fmt: skip
        with contextlib.suppress(BufferError):
            self._producer.produce(
                self._topic, orjson.dumps(row), f"{organization}:{one.contact_id}", headers=headers
            )
