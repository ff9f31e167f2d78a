"""A small Kafka in memory with skipped time, and forwarders on it that are killed, moved and refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schemas.dead import Header
from schemas.delayed import FORWARDED
from schemas.topic_names import DEAD, JOBS
from streams.delays.forwarder import IDLE_S, Forwarder, Refused, SessionOver, Undone
from streams.delays.lateness import Tally
from streams.delays.plan import Trouble
from streams.delays.queues import Mark, Queues
from streams.delays.records import End, Place, Record, Send
from streams.due import DELAY_TOPICS, delayed_record

T0 = 1_760_000_000_000
PARTITIONS = 2

Fault = Literal["abort", "lost before", "lost after"]
"""A transaction that Kafka undoes; one that nobody hears of again, undone or done."""


@dataclass
class World:
    """Logs, committed offsets, the members of the group. Time stands still but in `run`."""

    true_ms: float = 0.0
    set_by_ms: float = 0.0
    """By how much Kafka's clock was set."""
    logs: dict[Place, list[Record | None]] = field(default_factory=lambda: defaultdict(list))
    """None: an offset of no record, as ends of transactions and aborted records leave."""
    offsets: dict[Place, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    """What happens to the next transactions."""
    limits: dict[str, int] = field(default_factory=dict)
    """Topic → the largest value that it takes."""
    members: list[Member] = field(default_factory=list)
    transactions: int = 0
    version: int = 0
    """Rises whenever anything was read or written."""

    @property
    def now_ms(self) -> float:
        """Kafka's clock."""
        return T0 + self.true_ms + self.set_by_ms

    def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> None:
        """A record with the time of its append."""
        log = self.logs[topic, partition]
        log.append(Record(topic, partition, len(log), int(self.now_ms), key, value, tuple(headers)))
        self.version += 1

    def delay(self, name: str, delay_ms: int, partition: int = 0, headers: Sequence[Header] = ()) -> int:
        """Send a record that shall arrive so much later; returns when it is due."""
        now_ms = int(self.now_ms)
        topic, (key, value, _, written) = delayed_record(
            b"key-%d" % partition,
            name.encode(),
            headers,
            due_ms=now_ms + delay_ms,
            now_ms=now_ms,
            original_timestamp_ms=now_ms,
        )
        self.append(topic, partition, key, value, written)
        return now_ms + delay_ms

    def arrived(self, topic: str = JOBS) -> list[Record]:
        """What is in a topic, in the order of its partitions' logs."""
        return [
            record
            for (name, _), log in sorted(self.logs.items())
            if name == topic
            for record in log
            if record is not None
        ]

    # -- the group
    def join(self) -> Member:
        """One more forwarder."""
        member = Member(self)
        self.members.append(member)
        self.rebalance()
        return member

    def kill(self, member: Member) -> None:
        """One forwarder less, between two transactions or within one (`faults`)."""
        self.members.remove(member)
        self.rebalance()

    def rebalance(self, shift: int = 0) -> None:
        """Share all partitions out anew; who keeps one goes on with what is held of it."""
        places = [(topic, partition) for topic in DELAY_TOPICS for partition in range(PARTITIONS)]
        for n, member in enumerate(self.members):
            member.give({place for i, place in enumerate(places) if (i + shift) % len(self.members) == n})

    # -- time
    def run(self, ms: float) -> None:
        """Let so much time pass, from one moment at which something is due to the next."""
        until = self.true_ms + ms
        while True:
            self._work()
            pauses = [member.next_in_ms() for member in self.members]
            following = min((pause for pause in pauses if pause is not None), default=None)
            if following is None or self.true_ms + following > until:
                break
            self.true_ms += max(following, 1.0)
        self.true_ms = until
        self._work()

    def _work(self) -> None:
        while True:
            before = self.version
            for member in self.members:
                member.work()
            if self.version == before:
                return


class Member:
    """A forwarder in the world: its consumer, its producer, its view of Kafka's clock."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tally = Tally()
        self.trouble: dict[Mark, Trouble] = {}
        self.paused: set[Place] = set()
        self._owned: set[Place] = set()
        self._begin()

    def _begin(self) -> None:
        self.queues = Queues(DELAY_TOPICS)
        self._positions: dict[Place, int] = {}
        self._told: dict[Place, int] = {}
        self._waited = IDLE_S
        self.forwarder = Forwarder(self.queues, self, self, self, self.tally, self.trouble)
        owned, self._owned = self._owned, set()
        self.give(owned)

    def give(self, places: set[Place]) -> None:
        """What the group says: only what is new begins at the committed offset."""
        self.queues.revoke(self._owned - places)
        new = places - self._owned
        self.queues.assign(new)
        self._positions = {
            place: self.world.offsets.get(place, 0) if place in new else self._positions[place]
            for place in places
        }
        self.paused = (self.paused & places) - new
        self._told = {place: end for place, end in self._told.items() if place in places - new}
        self._owned = set(places)

    def work(self) -> None:
        """One cycle; a session that is over begins anew."""
        try:
            self.forwarder.step()
        except SessionOver:
            self.world.version += 1
            self._begin()

    def next_in_ms(self) -> float | None:
        """When it has something to do; None: as soon as something is sent to it."""
        if self._waited < IDLE_S:
            return self._waited * 1000
        leaves_ms = self.queues.next_leaves_ms()
        return None if leaves_ms is None else max(leaves_ms - self.world.now_ms, IDLE_S * 1000)

    # -- Clock
    def now_ms(self) -> float:
        return self.world.now_ms

    def monotonic_s(self) -> float:
        return self.world.true_ms / 1000

    # -- Intake
    def take(self, wait_s: float) -> Iterator[Record | End]:
        self._waited = wait_s
        for place in sorted(self._owned - self.paused):
            log, position = self.world.logs[place], self._positions[place]
            while position < len(log):
                record = log[position]
                position += 1
                self._positions[place] = position
                if record is not None:
                    self.world.version += 1
                    yield record
            if self._told.get(place) != position:
                self._told[place] = position
                yield End(place, position)

    def flow(self, pause: Sequence[Place], go_on: Sequence[Place]) -> None:
        self.paused = (self.paused | set(pause)) - set(go_on)
        if go_on:
            self.world.version += 1

    # -- Outlet
    def forward(self, sends: Sequence[Send], offsets: Mapping[Place, int], now_ms: int) -> None:
        world = self.world
        world.transactions += 1
        fault = world.faults.pop(0) if world.faults else None
        refused = {
            n
            for n, send in enumerate(sends)
            if len(send.value or b"") > world.limits.get(send.topic, 1 << 40)
        }
        touched = {(send.topic, send.partition) for send in sends}
        if fault in ("abort", "lost before") or refused:
            for place in touched:
                world.logs[place] += [None, None]
            if refused:
                # the batch of each refused record is refused as a whole
                raise Refused(
                    {n for n, s in enumerate(sends) if any(s.topic == sends[r].topic for r in refused)}
                )
            raise Undone("aborted") if fault == "abort" else SessionOver("lost")
        assert offsets.keys() <= self._owned, "offsets of partitions that aren't ours"
        for send in sends:
            assert send.topic in (*DELAY_TOPICS, *FORWARDED, DEAD)
            world.append(send.topic, send.partition, send.key, send.value, send.headers)
        for place in touched:
            world.logs[place].append(None)
        for place, offset in offsets.items():
            assert offset >= world.offsets.get(place, 0), "an offset goes back"
            world.offsets[place] = offset
        world.version += 1
        if fault == "lost after":
            raise SessionOver("lost")
