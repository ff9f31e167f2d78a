"""The counters of a worker as metrics: each is shown once, and what came in is shown where it went."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import cast

from faust.types import TP

from schemas.codec import encode_job
from streams.counting import Counts, Tally
from streams.decider import DatabaseDecider
from streams.group_link_intake import GroupLinkCounts
from streams.handlers.answers import Answer, Done, Retry
from streams.job_counting import JobTally, kind_label
from streams.skew import ClockSkew
from streams.transport import Consumer
from streams.transport.alarms import Alarms
from streams.transport.ledger import Progress
from streams.transport.stopwatch import Stopwatch
from streams.transport_readings import hangs, not_ready, transport_source
from streams.worker_readings import group_links_source, jobs_source, windows_source
from telemetry import catalogue
from telemetry.distribution import Distribution, Family
from telemetry.readings import Reading, Source, Summary
from tests.unit.job_stories import play, worker_in
from tests.unit.job_worlds import START_MS, World, job_of, key_of

GOOD = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def numbered(kind: type) -> dict[str, int]:
    """A different number for each counter of a class."""
    names = [one.name for one in fields(kind) if one.type == "int"]
    return {name: 1 << n for n, name in enumerate(names)}


def shown(source: Source) -> dict[tuple[str, ...], float]:
    return {
        (one.metric.name, *one.labels): one.value for one in source() if isinstance(one.value, int | float)
    }


def decider() -> DatabaseDecider:
    return cast("DatabaseDecider", SimpleNamespace(skew=ClockSkew(), took=Distribution()))


def test_every_record_that_is_read_is_shown_in_one_place() -> None:
    counts, links, jobs = Counts(), GroupLinkCounts(), JobTally()
    for one in (counts, links, jobs):
        for name, value in numbered(type(one)).items():
            setattr(one, name, value)
    sources = (
        ("collect", windows_source(counts, Tally(), decider()), counts.accounted),
        ("jobs", jobs_source(jobs, Family(), running=int, waiting=int, paused=set), jobs.accounted),
        ("group_links", group_links_source(links), sum(numbered(GroupLinkCounts).values()) - links.read),
    )
    for stage, source, accounted in sources:
        told = shown(source)
        fates = [value for (name, *labels), value in told.items() if name == catalogue.RECORDS.name]
        assert sum(fates) == accounted and len(set(fates)) == len(fates), stage


def test_the_ends_of_windows_and_attempts_are_all_shown() -> None:
    tally = Tally(**numbered(Tally), stops={"opted_out": 1 << 20, "human": 1 << 21})
    told = shown(windows_source(Counts(), tally, decider()))
    ended = sum(value for (name, *_), value in told.items() if name == catalogue.WINDOWS_ENDED.name)
    assert ended == tally.closed + tally.handed_over
    assert told[catalogue.WINDOW_STOPS.name, "human"] == 1 << 21
    jobs = JobTally(**numbered(JobTally))
    told = shown(jobs_source(jobs, Family(), running=int, waiting=int, paused=lambda: {"*", "org"}))
    ends = [value for (name, *_), value in told.items() if name == catalogue.ATTEMPTS_ENDED.name]
    assert sum(ends) == (
        jobs.done + jobs.delayed + jobs.failed + jobs.dead + jobs.held + jobs.handed_back + jobs.lost
    )
    assert told[(catalogue.ORGANIZATIONS_PAUSED.name,)] == 1


def test_kinds_that_somebody_invents_are_one_label() -> None:
    assert {kind_label(kind) for kind in ("fax", "", "inbound_turn", "x" * 99)} == {"other", "inbound_turn"}


def test_freshness_and_waits_are_seen_where_they_happen() -> None:
    async def story() -> None:
        answers: list[Answer] = [Retry("http_500: x"), Done()]
        world = World(engine=lambda job, attempt: answers.pop(0))
        worker = await worker_in(world)
        job = job_of(1)
        committed = [("cdc_source_ts_ms", b"%d" % (START_MS - 8_000))]
        world.append("dispatch.jobs", key_of(), encode_job(job), committed)
        await worker.live(START_MS + 120_000)
        tally = worker.executor.tally
        ((kind, freshness),) = tally.to_done.read().items()
        assert tally.done == 1 and kind == ("inbound_turn",) and sum(freshness.counts) == 1
        assert freshness.total >= 8, "whoever closed the window: the record says when it began"
        ((kind, waits),) = tally.lane_wait.read().items()
        assert kind == ("inbound_turn",) and sum(waits.counts) == 2 == tally.started
        assert waits.total < 10, "the time in the delay topics is none of it"

    play(story())


def test_br_42_one_header_goes_through_attempts_into_the_dead_letter() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Retry("http_500: x"))
        worker = await worker_in(world)
        piled_up = [("traceparent", b"junk"), ("traceparent", GOOD), ("Traceparent", GOOD[:-1] + b"0")]
        world.append("dispatch.jobs", key_of(), encode_job(job_of(1, max_attempts=3)), piled_up)
        await worker.live(START_MS + 900_000, step_ms=1_000)
        (letter,) = world.letters()
        assert len(world.calls) == 3
        assert [value for name, value in letter[3] or () if name.lower() == "traceparent"] == [GOOD]

    play(story())


def consumer(**more: object) -> Consumer:
    """What is read of one; the real one is read in tests/e2e/test_telemetry.py."""
    given = SimpleNamespace(
        alarms=Alarms(),
        generation=7,
        ownership=SimpleNamespace(pauses=Stopwatch(), recoveries=Stopwatch(), progress=lambda: None),
        refetches=0,
        rereads=0,
        commits_refused=0,
        counters=lambda: dict.fromkeys(
            ("transport_bytes_in_flight", "transport_outstanding", "transport_late_writes"), 0
        ),
        progress=lambda: {TP("t", 3): Progress(5, 7, 9)},
        log_end=lambda tp: 20,
    )
    for name, value in more.items():
        setattr(given, name, value)
    return cast("Consumer", given)


def test_how_far_a_partition_is() -> None:
    told = shown(transport_source(lambda: consumer()))
    at = {metric: told[metric.name, "t", "3"] for metric in
          (catalogue.COMMITTED, catalogue.UNCOMMITTED, catalogue.UNFINISHED, catalogue.BEHIND)}  # fmt: skip
    assert list(at.values()) == [5, 2, 2, 13]
    assert shown(transport_source(lambda: None)) == {}


def test_br_09_commits_that_stall_ask_for_a_restart_and_an_absent_kafka_does_not() -> None:
    one = consumer()
    assert not list(hangs(one)) and not list(hangs(None))
    one.alarms.raise_("uncommitted", "for 300 s: t-3")
    assert [trouble.part for trouble in hangs(one)] == ["commits"]
    one.alarms.raise_("silent", "for 7 s")
    assert not list(hangs(one)), "Kafka is away: a restart would not bring it back"
    assert [trouble.part for trouble in not_ready(one)] == ["broker", "work"]
    one.alarms.raise_("stalled", "for 300 s: t-3")
    assert [trouble.part for trouble in hangs(one)] == ["work"]


def test_br_17_a_recovery_tells_how_much_is_left() -> None:
    recovering = consumer(
        ownership=SimpleNamespace(pauses=Stopwatch(), recoveries=Stopwatch(), progress=lambda: (10, 29))
    )
    (trouble,) = not_ready(recovering)
    assert trouble.part == "recovery" and "29 are left" in trouble.what
    assert shown(transport_source(lambda: recovering))[(catalogue.RECOVERY_LEFT.name,)] == 29
    assert [one.part for one in not_ready(consumer(generation=None))] == ["group"]
    assert [one.part for one in not_ready(None)] == ["group"]


def test_a_stopwatch_counts_what_ended() -> None:
    watch = Stopwatch()
    watch.end(1.0)
    watch.begin(2.0)
    watch.begin(3.0)
    watch.end(5.0)
    assert (watch.number, watch.total, watch.last) == (1, 3.0, 3.0)
    watch.begin(6.0)
    watch.begin(7.0, anew=True)
    watch.end(8.0)
    assert (watch.number, watch.total, watch.last) == (2, 4.0, 1.0)
    reading = Reading(catalogue.RECOVERY, Summary(watch.number, watch.total))
    assert reading.value == (2, 4.0)
