"""Each peer of the benchmark makes the very jobs that our worker makes of the same events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from bench import peers, workload
from bench.peer import Unavailable
from bench.peers import draining, killing, measuring
from bench.peers.audit import Made, audit, windows_of
from bench.peers.draining import Draining
from bench.peers.measuring import Streaming
from bench.processes import running
from bench.servers import Servers, own_database, own_topics
from bench.workload import Workload
from streams import topics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EVENTS = 500
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Ours:
    """The events, where they are, and the jobs that our worker made of them."""

    workload: Workload
    at: Servers
    url: str
    jobs: tuple[Made, ...]

    @property
    def ids(self) -> list[str]:
        return [one.event_id for one in self.workload.events]


@pytest.fixture(scope="module")
def ours(kafka: str, postgres: str) -> Iterator[Ours]:
    at = Servers(kafka, postgres, given=True)
    with own_database(postgres) as url:
        made = workload.make(url, events=EVENTS, contacts=EVENTS // 20)
        yield Ours(made, at, url, _jobs_of_ours(made, at, url))


def _jobs_of_ours(made: Workload, at: Servers, url: str) -> tuple[Made, ...]:
    with own_topics(at, jobs_paused=True) as settings:
        topics.ensure_topics(at.bootstrap, settings)
        workload.preload(made, at.bootstrap, settings)
        with running("worker", settings=settings, database_url=url) as processes:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                jobs = measuring.collect(killing.OURS, settings).jobs
                if sum(len(one.events) for one in jobs) >= len(made.events):
                    return jobs
                processes["worker"].ensure_alive()
                assert time.monotonic() < deadline, processes["worker"].tail()
                time.sleep(0.2)


def test_ours_makes_a_job_of_every_window_of_the_workload(ours: Ours) -> None:
    assert audit(ours.ids, ours.jobs).faultless
    assert len(windows_of(ours.jobs)) == ours.workload.windows


@pytest.mark.parametrize(
    "peer", [*peers.KAFKA_STREAMS, peers.QUIX, peers.FAUST], ids=lambda peer: str(peer.name)
)
def test_a_peer_on_the_topic_makes_our_jobs(ours: Ours, peer: Streaming) -> None:
    few = replace(peer, warming=min(peer.warming, EVENTS))
    try:
        came_out, result = measuring.measure_and_keep(few, ours.workload, ours.at, ours.url)
    except Unavailable as missing:
        pytest.skip(str(missing))
    assert audit(ours.ids, came_out.jobs).faultless
    assert set(came_out.jobs) == set(ours.jobs)
    assert came_out.told == set(ours.ids)
    assert (result.events, result.jobs) == (EVENTS, ours.workload.windows)


@pytest.mark.parametrize("peer", [peers.PROCRASTINATE, peers.PGQUEUER], ids=lambda peer: str(peer.name))
def test_a_peer_in_postgres_makes_our_windows(ours: Ours, peer: Draining) -> None:
    """As sets: what was committed in the same millisecond has no order in a table, as it has in a log."""
    try:
        jobs, result = draining.measure_and_keep(peer, ours.workload, ours.at, ours.url)
    except Unavailable as missing:
        pytest.skip(str(missing))
    assert audit(ours.ids, jobs).faultless
    assert {frozenset(one.events) for one in jobs} == {frozenset(one.events) for one in ours.jobs}
    assert result.jobs == ours.workload.windows
