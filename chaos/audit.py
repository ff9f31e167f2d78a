"""What a chaos run must have left behind: every record processed and committed, every key counted right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, TopicPartition

from streams.transport.token import MARKER, Reader

from .workers import Injury

Place = tuple[str, int]
"""Topic and partition."""
INJURIES = ("join", "kill", "term", "stop")
"""What is done to workers; the rest follows from it."""
KINDS = {"i": "in", "o": "one"}
"""The journal's letters for the two source topics."""


@dataclass
class Truth:
    """What was produced, by delivery reports."""

    keys: dict[str, list[int]] = field(default_factory=dict)
    """Key → [number of records, sum of offsets, last offset] of the batched topic."""
    sent_at: dict[tuple[str, int, int], float] = field(default_factory=dict)
    """(topic, partition, offset) → seconds since 1970."""
    not_sent: int = 0

    def report(self, error: KafkaError | None, message: Any) -> None:
        """A delivery report of librdkafka."""
        if error is not None:
            self.not_sent += 1
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        self.sent_at[topic, partition, offset] = message.timestamp()[1] / 1000
        if topic.endswith(".in"):
            state = self.keys.setdefault(message.key().decode(), [0, 0, -1])
            state[0] += 1
            state[1] += offset
            state[2] = max(state[2], offset)


@dataclass
class Findings:
    """The result of a run. Those of `VIOLATIONS` have to be zero."""

    VIOLATIONS = ("lost", "unprocessed", "uncommitted", "ahead", "zombie_writes", "wrong_keys", "crashes")

    records: int = 0
    lost: int = 0
    """Records below the committed offset that no worker processed."""
    unprocessed: int = 0
    """Records at or above the committed offset that no worker processed (delivery is stuck)."""
    uncommitted: int = 0
    """Offsets that were never committed (commits are stuck)."""
    ahead: int = 0
    """Records that a worker processed before a lower offset of their partition was processed by anybody."""
    repeated: int = 0
    """Records processed more than once: allowed, the state tells them apart."""
    zombie_writes: int = 0
    """Changelog records that go back behind what another worker wrote, and whose token doesn't show it."""
    wrong_keys: int = 0
    """Keys whose final state isn't what the log implies."""
    late_writes: int = 0
    """Changelog records whose token shows a replaced worker: allowed, every reader skips them."""
    wrong_without_tokens: int = 0
    """Keys whose final state would be wrong for a reader that didn't look at the tokens."""
    crashes: int = 0
    """Workers that ended without being told to."""
    ended_themselves: int = 0
    """Workers that were stopped, found themselves replaced, and ended with status 70."""
    longest_pause_s: float = 0.0
    """The longest time that a record waited for its (first) processing."""
    longest_single_pause_s: float = 0.0
    """The longest such time in which not more than one thing was done to the workers."""
    drain_s: float = 0.0
    """Seconds from the last record and the last injury until all was committed."""
    changelog_records: int = 0
    workers: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def violations(self) -> list[str]:
        """The names of what must not have happened and did."""
        return [name for name in self.VIOLATIONS if getattr(self, name)]


class Log:
    """A view of the topics and the group from outside."""

    def __init__(self, bootstrap: str, group: str, topics: Iterable[str], partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
            }
        )
        self._places = [TopicPartition(topic, p) for topic in topics for p in range(partitions)]

    def ends(self) -> dict[Place, int]:
        """The end of each partition."""
        return {(tp.topic, tp.partition): self._consumer.get_watermark_offsets(tp)[1] for tp in self._places}

    def starts(self) -> dict[Place, int]:
        """The first offset of each partition."""
        return {(tp.topic, tp.partition): self._consumer.get_watermark_offsets(tp)[0] for tp in self._places}

    def committed(self) -> dict[Place, int]:
        """The committed offset of each partition (0: none)."""
        answer = self._consumer.committed(self._places, timeout=10)
        return {(tp.topic, tp.partition): max(0, tp.offset) for tp in answer}

    def wait_committed(
        self, timeout: float, patience: float = 20.0, meanwhile: Callable[[], object] = int
    ) -> float:
        """Wait until everything is committed or nothing moves for `patience` seconds; the seconds it took."""
        start = moved = monotonic()
        before = -1
        ends = self.ends()
        while monotonic() - start < timeout and monotonic() - moved < patience:
            committed = self.committed()
            if all(committed[place] >= end for place, end in ends.items()):
                break
            if sum(committed.values()) != before:
                before, moved = sum(committed.values()), monotonic()
            meanwhile()
            sleep(0.3)
        return monotonic() - start

    def read(self, topic: str, partitions: int) -> Iterable[Any]:
        """All records of a topic, from the beginning to its present end."""
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        ended: set[int | None] = set()  # an end is told again when more was written meanwhile
        while len(ended) < partitions:
            message = self._consumer.poll(10)
            if message is None:
                raise TimeoutError(f"{topic} could not be read to its end")
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise RuntimeError(error.str())

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


def read_journals(folder: Path, prefix: str) -> tuple[Counter[tuple[str, int, int]], dict[Any, float]]:
    """How often each record was processed, and when first (seconds since 1970)."""
    times: Counter[tuple[str, int, int]] = Counter()
    first: dict[Any, float] = {}
    for path in sorted(folder.glob("processed-*.txt")):
        for line in path.read_text().splitlines():
            parts = line.split()
            if len(parts) != 4:  # cut by kill -9
                continue
            record = f"{prefix}.{KINDS[parts[0]]}", int(parts[1]), int(parts[2])
            times[record] += 1
            first[record] = min(first.get(record, float("inf")), float(parts[3]))
    return times, first


def judge_deliveries(
    findings: Findings, truth: Truth, folder: Path, prefix: str, ends: Mapping[Place, int],
    committed: Mapping[Place, int],
) -> Mapping[tuple[str, int, int], float]:  # fmt: skip
    """Fill in what became of the source records; returns when each was first processed."""
    times, first = read_journals(folder, prefix)
    missing: dict[str, list[int]] = {}
    findings.records = len(truth.sent_at)
    for record in truth.sent_at:
        topic, partition, offset = record
        if record not in times:
            missing.setdefault(f"{topic}-{partition}", []).append(offset)
            if offset < committed[topic, partition]:
                findings.lost += 1
            else:
                findings.unprocessed += 1
    findings.ahead = _ahead(first)
    findings.repeated = sum(n - 1 for n in times.values())
    findings.uncommitted = sum(max(0, end - committed[place]) for place, end in ends.items())
    findings.details["missing"] = {place: [len(o), min(o), max(o)] for place, o in missing.items()}
    return first


def judge_pauses(
    findings: Findings, truth: Truth, first: Mapping[tuple[str, int, int], float], injuries: Sequence[Injury]
) -> None:
    """Fill in the longest pauses, all of them and those after a single injury."""
    waits = sorted(
        ((first[one] - sent_at, sent_at, one) for one, sent_at in truth.sent_at.items() if one in first),
        reverse=True,
    )
    findings.longest_pause_s = round(waits[0][0], 1) if waits else 0.0
    for wait, sent_at, record in waits:
        near = [injury for injury in injuries if sent_at - wait <= injury.at <= sent_at + wait]
        if any(injury.what.startswith("broker") for injury in near):
            continue  # it lasts at least as long as the broker is away
        done = [injury for injury in near if injury.what in INJURIES]
        if len(done) <= 1:
            findings.longest_single_pause_s = round(wait, 1)
            findings.details["slowest"] = [f"{record[0]}-{record[1]}", *(injury.what for injury in done)]
            break


def _ahead(first: Mapping[tuple[str, int, int], float]) -> int:
    """Processed in time order, each partition must be an unbroken sequence (these topics have no holes)."""
    expected: dict[Place, int] = {}
    found = 0
    for (topic, partition, offset), _ in sorted(first.items(), key=lambda item: (item[1], item[0])):
        place = topic, partition
        if offset > expected.setdefault(place, 0):
            found += 1
        expected[place] = max(expected[place], offset + 1)
    return found


def judge_changelog(findings: Findings, truth: Truth, records: Iterable[Any]) -> None:
    """Fill in what the changelog holds: final state per key, and records that go back."""
    state: dict[str, dict[str, int]] = {}
    unchecked: dict[str, dict[str, int]] = {}
    newest: dict[str, tuple[int, int]] = {}
    readers: dict[int, Reader] = {}
    for record in records:
        counts = readers.setdefault(record.partition(), Reader()).accepts(record.headers())
        if record.key() == MARKER:
            continue
        key, value = record.key().decode(), orjson.loads(record.value())
        findings.changelog_records += 1
        unchecked[key] = value
        if not counts:
            findings.late_writes += 1
            continue
        last, worker = newest.get(key, (-1, -1))
        if value["last"] <= last and value["worker"] != worker:
            findings.zombie_writes += 1
        if value["last"] > last:
            newest[key] = value["last"], value["worker"]
        state[key] = value
    wrong = _differences(truth, state)
    findings.wrong_keys += len(wrong)
    findings.wrong_without_tokens += len(_differences(truth, unchecked))
    findings.details.setdefault("wrong", {}).update(list(wrong.items())[:5])


def _differences(truth: Truth, state: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    wrong = {}
    for key, expected in truth.keys.items():
        found = [state[key][name] for name in ("n", "sum", "last")] if key in state else None
        if found != expected:
            wrong[key] = {"expected": expected, "found": found}
    return wrong
