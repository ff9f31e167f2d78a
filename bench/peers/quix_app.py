"""Quix Streams on the main path's work: session windows by contact, closed by their partition's time.

Windows anchored at a contact's first event, as ours, are not to be had in Quix Streams; a session window
with our length as its gap gives the same ones where a burst is shorter than its window and followed by
silence, as in the benchmark's workload. State is in RocksDB with a changelog, as the documentation has it.

`python -m bench.peers.quix_app`, with the variables of `bench.peers.program`; runs until SIGTERM.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from quixstreams import Application
from quixstreams.dataframe.windows import Collect

from bench.peers.program import ready
from bench.peers.records import Told, event_of, sent
from streams.contact import WindowEvent

Headers = list[tuple[str, bytes]]


class Watched(Application):
    """An application that says when it has its partitions and their state."""

    def _on_assign(self, *arguments: Any) -> None:
        super()._on_assign(*arguments)
        ready()


def _time_ms(value: Any, headers: Headers | None, at_ms: float, kind: Any) -> int:
    for name, text in headers or ():
        if name == "cdc_source_ts_ms":
            return int(text)
    return int(at_ms)


def _member(value: bytes, key: bytes, time_ms: int, headers: Headers | None) -> list[object]:
    """What a window keeps of an event; the end of the log has to pass too, to move the time."""
    event = event_of(value, headers or (), time_ms)
    if event is None:
        return []
    return [event.conversation_id, event.event_id, event.message_id, event.session_id, event.time_ms]


def main() -> None:
    """Run until SIGTERM."""
    told = Told.read()
    guarantee: Literal["at-least-once", "exactly-once"] = (
        "exactly-once" if os.environ.get("PEER_GUARANTEE") == "exactly-once" else "at-least-once"
    )
    app = Watched(
        told.bootstrap,
        consumer_group=told.application,
        auto_offset_reset="earliest",
        state_dir=told.state,
        processing_guarantee=guarantee,
        loglevel="WARNING",
        consumer_extra_config={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 2_000},
    )
    source = app.topic(told.source, value_deserializer="bytes", timestamp_extractor=_time_ms)
    jobs = app.topic(told.jobs, value_serializer="bytes")
    outcomes = app.topic(told.outcomes, value_serializer="bytes")

    def records(window: dict[str, Any], key: bytes, time_ms: int, headers: Any) -> tuple[bytes, bytes]:
        members = [one for one in window["members"] if one]
        return sent(
            key,
            members[0][0],
            [WindowEvent(event, message, session, 0, at) for _, event, message, session, at in members],
            members[0][4] + told.window_ms,
            told.window_ms,
        )

    made = (
        app.dataframe(source)
        .apply(_member, metadata=True)
        .session_window(inactivity_gap_ms=told.window_ms)
        .agg(members=Collect())
        .final(closing_strategy="partition")
        .filter(lambda window: any(window["members"]))
        .apply(records, metadata=True)
    )
    made.apply(lambda pair: pair[0]).to_topic(jobs)
    made.apply(lambda pair: pair[1]).to_topic(outcomes)
    app.run()


if __name__ == "__main__":
    main()
