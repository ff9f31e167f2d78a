"""Plays a scenario in real time: what a CRM writes to Postgres, and what should not come to the topic."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Final, assert_never
from uuid import uuid4

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from kafka_access import kafka_client
from ops.clinic import Connection
from ops.clinic import Message as Written
from ops.demo.happenings import Finished, Happening, MediaRead, Noted, Resent, SentNoise, Wrote
from ops.demo.scenario import Scenario
from ops.demo.stage import Stage, assign, connect, media_was_read, merge
from ops.demo.stand_in import StandIn
from ops.demo.steps import (
    BreakOff,
    Chat,
    Connect,
    Merge,
    Noise,
    Order,
    OutOfContract,
    Read,
    Repeat,
    Say,
    Step,
    TakeOver,
    Treat,
)
from ops.engine.scenario import Scenario as Treatment
from ops.event_lines import EventLine
from ops.event_record import record_of
from schemas.codec import encode_command
from schemas.records import Command
from settings import RajadaError, Settings
from streams import topics
from streams.identifiers import job_id

_DELIVERY_S: Final = 10.0
_MEDIA_URL: Final = "https://media.example/{}"


class NotDelivered(RajadaError):
    """A record of the demo did not reach the topic."""


class Player:
    """Does every step at its time; `tell` hears what was done. For one thread."""

    def __init__(
        self,
        scenario: Scenario,
        stage: Stage,
        connection: Connection,
        bootstrap: str,
        settings: Settings,
        engine: StandIn,
        tell: Callable[[Happening], None],
    ) -> None:
        self._scenario = scenario
        self._stage = stage
        self._connection = connection
        self._settings = settings
        self._engine = engine
        self._producer = Producer(
            {
                **kafka_client(bootstrap),
                "partitioner": "murmur2_random",
                "acks": "all",
                "linger.ms": 0,
                "log_level": 2,  # what it can't do is raised; Kafka goes first when the demo ends
            }
        )
        self._tell = tell
        self._said: dict[str, tuple[Say, EventLine, float]] = {}
        """Label → the message, its row, and when it was committed (s, monotonic)."""

    def run(self, begun: float, stop: threading.Event) -> None:
        """Play until the end or `stop`; `begun` is the scenario's second 0 on the monotonic clock.

        Raises psycopg.Error, NotDelivered, or Unreachable when the engine is away.
        """
        self._engine.treat(Treatment(delay_ms=round(self._scenario.turn_s * 1000)))
        order = itertools.count()
        due = [(step.at_s, next(order), step) for step in self._scenario.steps]
        heapq.heapify(due)
        while due and not stop.is_set():
            at_s, _, step = due[0]
            if stop.wait(max(0.0, begun + at_s - time.monotonic())):
                return
            heapq.heappop(due)
            if isinstance(step, BreakOff) and step.after in self._said:
                # known only now: the window ends its length after the commit of its first message
                ends_s = self._said[step.after][2] + self._window_ms(step.chat) / 1000 - begun
                if at_s < ends_s:
                    heapq.heappush(due, (ends_s, next(order), step))
                    continue
            self._do(step)
        self._tell(Finished(time.monotonic()))

    def _do(self, step: Step) -> None:
        match step:
            case Say():
                self._write(step)
            case BreakOff(at_s=at_s, chat=of, text=text):
                self._write(Say(at_s, of, text))
            case Read(chat=of, of=label):
                row = self._said[label][1]
                media_was_read(self._connection, row.entity_id or "")
                self._tell(MediaRead(time.monotonic(), of, row.id))
            case Repeat(chat=of, of=label):
                row = self._said[label][1]
                self._send(topics.SOURCE, *record_of(row, time.time_ns() // 1_000_000)[:2])
                self._tell(Resent(time.monotonic(), of, row.id))
            case OutOfContract():
                self._write_out_of_contract(step)
            case Noise(data=data):
                partition, offset = self._send(topics.SOURCE, b"?", data)
                self._tell(SentNoise(time.monotonic(), partition, offset))
            case TakeOver(chat=of):
                assign(self._connection, self._stage.people[of.key], "user")
                self._tell(Noted(time.monotonic(), of, "a person takes over"))
            case Merge(chat=of, into=into):
                merge(self._connection, self._stage.people[of.key], self._stage.people[into.key])
                self._tell(Noted(time.monotonic(), of, f"merged into {into.name}"))
            case Treat(chat=of, told=what):
                self._engine.treat(self._treatment(step), self._stage.people[of.key].contact_id)
                self._tell(Noted(time.monotonic(), of, what))
            case Connect(line=line, works=works, told=what):
                connect(self._connection, self._stage.numbers[line], works=works)
                self._tell(Noted(time.monotonic(), None, what))
            case Order(chat=of, told=what):
                self._order(step)
                self._tell(Noted(time.monotonic(), of, what))
            case _ as never:
                assert_never(never)

    def _write(self, step: Say) -> None:
        """A message and its event in one statement, as a CRM does."""
        person, number = self._stage.people[step.chat.key], self._stage.number_of(step.chat)
        url = None if step.kind == "text" else _MEDIA_URL.format(uuid4())
        (written,) = number.write(self._connection, [Written(person, step.kind, url)])
        at = time.monotonic()
        if step.label:
            payload = {
                "conversation_id": person.conversation_id,
                "contact_id": person.contact_id,
                "channel_session_id": number.session_id,
                "inbound_message_id": written.message_id,
            }
            row = EventLine(
                line=0,
                id=written.event_id,
                organization_id=number.organization_id,
                event_type=topics.SOURCE,
                payload=msgspec.json.encode(payload).decode(),
                entity_kind="message",
                entity_id=written.message_id,
            )
            self._said[step.label] = step, row, at
        self._told(at, step.chat, step.text, written.event_id, step.kind)

    def _write_out_of_contract(self, step: OutOfContract) -> None:
        event_id, number = str(uuid4()), self._stage.number_of(step.chat)
        self._connection.execute(
            "INSERT INTO event_log (id, organization_id, event_type, payload) VALUES (%s, %s, %s, %s)",
            [event_id, number.organization_id, topics.SOURCE, '{"origin": "site", "form": "avaliacao"}'],
        )
        self._told(time.monotonic(), step.chat, step.text, event_id, "text")

    def _treatment(self, step: Treat) -> Treatment:
        takes_s = self._scenario.turn_s if step.takes_s is None else step.takes_s
        return Treatment(
            mode=step.mode,
            delay_ms=round(takes_s * 1000),
            times=step.times,
            status=step.status,
            retry_after=str(max(1, round(step.wait_s))) if step.wait_s else None,
            reason=step.reason,
        )

    def _order(self, step: Order) -> None:
        """A command about a job, by its id: it may come before the job does."""
        first = self._said[step.of][1]
        number, person = self._stage.number_of(step.chat), self._stage.people[step.chat.key]
        command = Command(
            id=str(uuid4()),
            at_ms=time.time_ns() // 1_000_000,
            action=step.action,
            organization_id=number.organization_id,
            job_id=job_id(number.organization_id, first.id),
            reason="to read it first" if step.action == "hold" else None,
            issued_by="demo",
        )
        key = f"{number.organization_id}:{person.contact_id}".encode()
        self._send(topics.CONTROL, key, encode_command(command))

    def _told(self, at: float, chat: Chat, text: str, event_id: str, kind: str) -> None:
        self._tell(Wrote(at, chat, text, event_id, self._window_ms(chat), kind))

    def _window_ms(self, chat: Chat) -> int:
        return self._scenario.line_of(chat).window_ms

    def _send(self, name: str, key: bytes, value: bytes) -> tuple[int, int]:
        """Send a record and wait until it is there; returns its partition and offset."""
        topic = self._settings.topic(name)
        sent: list[tuple[int, int]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                sent.append((message.partition() or 0, message.offset() or 0))

        self._producer.produce(topic, value, key, on_delivery=delivered)
        self._producer.flush(_DELIVERY_S)
        if not sent:
            raise NotDelivered(f"Kafka did not take a record for {topic} within {_DELIVERY_S:.0f} s.")
        return sent[0]
