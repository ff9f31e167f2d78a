"""Others on the main path's work, measured in the same rounds and on the same data as ours.

What each does of the work and what it leaves out stands in its `Peer.work`; how they are fed, timed and
checked stands in `bench.peers.measuring` (those that read the topic) and `bench.peers.draining` (those that
live in Postgres). Their libraries are the extra `peers`; none is imported here.
"""

from __future__ import annotations

from functools import partial

from bench.peer import Peer
from bench.peers import draining, kafka_streams, measuring
from bench.peers.draining import Draining
from bench.peers.measuring import Streaming
from bench.peers.program import python_command, version_of

WARMING_EVENTS = 30_000
"""A JVM compiles the way of an event within the first few thousand."""
ALL = 1_000_000
SLOW = 20_000
"""Most events of the slow ones: their pace on more is told as an extrapolation, not measured."""

_LESS = "No decision is read from Postgres, no window is frozen before its job is sent."


def _streams(name: str, *, exactly_once: bool, tuned: bool) -> Streaming:
    start = partial(kafka_streams.command, exactly_once=exactly_once, tuned=tuned)
    return Streaming(name, start, warming=WARMING_EVENTS)


KAFKA_STREAMS = (
    _streams("kafka-streams", exactly_once=False, tuned=False),
    _streams("kafka-streams-eos", exactly_once=True, tuned=False),
    _streams("kafka-streams-tuned", exactly_once=False, tuned=True),
    _streams("kafka-streams-eos-tuned", exactly_once=True, tuned=True),
)
QUIX = Streaming("quix-streams", partial(python_command, "bench.peers.quix_app", "quixstreams"))
FAUST = Streaming(
    "faust", partial(python_command, "bench.peers.faust_app", "faust-streaming", arguments=("worker",))
)
PROCRASTINATE = Draining("procrastinate", "bench.peers.procrastinate_app", "procrastinate")
PGQUEUER = Draining("pgqueuer", "bench.peers.pgqueuer_app", "pgqueuer")


def _work_of_kafka_streams(name: str) -> str:
    guarantee = "exactly once (v2)" if "eos" in name else "at least once"
    pace = "linger 0, poll and punctuation every 10 ms" if "tuned" in name else "its defaults"
    return (
        f"Kafka Streams, {guarantee}, {pace}: a processor with windows anchored at a conversation's first "
        "event, a record per contact in RocksDB with a changelog, jobs and outcomes in JSON; one stream "
        f"thread; warmed by {WARMING_EVENTS:,} other events in the same process. {_LESS}"
    )


PEERS: tuple[Peer, ...] = (
    *(
        Peer(
            name=one.name,
            way="topic",
            work=_work_of_kafka_streams(one.name),
            most_events=ALL,
            version=kafka_streams.version,
            measure=partial(measuring.measure, one),
        )
        for one in KAFKA_STREAMS
    ),
    Peer(
        name=QUIX.name,
        way="topic",
        work=(
            "Quix Streams, at least once, its defaults: session windows by contact with our length as the "
            "gap (it has none that are anchored at a first event), in RocksDB with a changelog; decoding, "
            f"job and outcome are our own functions. {_LESS}"
        ),
        most_events=100_000,
        version=lambda: f"Quix Streams {version_of('quixstreams')}",
        measure=partial(measuring.measure, QUIX),
    ),
    Peer(
        name=FAUST.name,
        way="topic",
        work=(
            "Faust with its own transport in place of ours, its defaults: an event at a time into a table "
            "in memory with a changelog; decoding, windows, contact record, job and outcome are our own "
            f"functions. It reads what is not committed, too. {_LESS}"
        ),
        most_events=SLOW,
        version=lambda: f"faust-streaming {version_of('faust-streaming')}",
        measure=partial(measuring.measure, FAUST),
    ),
    Peer(
        name=PROCRASTINATE.name,
        way="commit",
        work=(
            "A drain asks the event log for new rows, a thousand at a time, and defers a task for each of "
            "their conversations, scheduled to the window's end, with a queueing lock that keeps a second "
            "one out; the task takes the window's events and writes the job row, ten tasks at a time. The "
            "worker listens for notifications, as by default. No decision is read, no outcome written."
        ),
        most_events=SLOW,
        version=lambda: f"procrastinate {version_of('procrastinate')}",
        measure=partial(draining.measure, PROCRASTINATE),
    ),
    Peer(
        name=PGQUEUER.name,
        way="commit",
        work=(
            "As procrastinate's, but the conversations of a thousand events are enqueued in one statement "
            "and a dedupe key keeps the second job of a conversation out; jobs are taken a hundred at a "
            "time. No decision is read, no outcome written."
        ),
        most_events=SLOW,
        version=lambda: f"pgqueuer {version_of('pgqueuer')}",
        measure=partial(draining.measure, PGQUEUER),
    ),
)
