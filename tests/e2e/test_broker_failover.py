"""A cluster of three brokers under load: a source partition's leader, then the controller die by kill -9.

Nothing is lost, no event comes into two jobs, the agent engine is called once a job; and the longest gap
between two jobs is within the session timeout and three seconds.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from ops.clinic import Clinic, Connection, Message, Patient
from ops.embedded.kafka_cluster import KafkaCluster
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from schemas.topic_names import SOURCE
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

pytestmark = [pytest.mark.long, pytest.mark.alone]

CONTACTS = 400
PER_STATEMENT = 4
RATE = 200
"""Events a second: there is work under way whenever a broker dies."""
SESSION_S = 10.0
"""A record has 0.8 of it to be durable: more than the cluster needs to notice a dead broker (3 s)."""
WINDOW_MS = 300
LONGEST_PAUSE_S = SESSION_S + 3.0
"""The bar: the session timeout and 3 s."""
QUICK_START_S = 4.0
"""Where our four processes take longer to start, the machine is too slow to judge by the bar: what moves on
after a death are processes and brokers that start. There a pause of three times the bar is a fault still."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("cluster") / "data") as running:
        yield running


@pytest.fixture
def running(
    cluster: KafkaCluster, tmp_path: Path, database: str, prefix: str, engine: EngineBeside
) -> Iterator[Processes]:
    made = Processes(
        tmp_path,
        cluster.bootstrap,
        database,
        prefix,
        AGENT_ENGINE_URL=engine.url,
        RAJADA_REPLICATION_FACTOR="3",
        RAJADA_PARTITIONS="6",
        RAJADA_SESSION_TIMEOUT_S=str(SESSION_S),
        RAJADA_PERSON_SPACING_MS="0",
    )
    yield made
    made.stop()


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    """The broker that leads the first partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    leader: int = admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    return leader


def supervise(running: Processes, stop: threading.Event) -> None:
    """Restart what dies, as `rajada up` does."""
    while not stop.wait(0.5):
        running.ensure_alive()


def feed(
    database: str, clinic: Clinic, patients: list[Patient], stop: threading.Event, written: list[int]
) -> None:
    """Write events at RATE until stopped, in small transactions of one patient each; counts them."""
    order = random.Random(11)
    began = time.monotonic()
    with psycopg.connect(database, autocommit=True) as connection:
        while not stop.is_set():
            clinic.write(connection, [Message(patients[order.randrange(CONTACTS)])] * PER_STATEMENT)
            written[0] += PER_STATEMENT
            stop.wait(max(0.0, began + written[0] / RATE - time.monotonic()))


def gaps(engine: EngineBeside) -> list[tuple[float, float]]:
    """How long nothing was called, and since when (Unix seconds)."""
    called = sorted(one.at_ms / 1000 for one in engine.requests())
    return [(later - earlier, earlier) for earlier, later in pairwise(called)]


def tell_pauses(engine: EngineBeside, died: list[tuple[str, float]]) -> None:
    """Print the longest gaps, and when they were, for `pytest -s`."""
    for gap, since in sorted(gaps(engine), reverse=True)[:3]:
        after = ", ".join(f"{since - at:+.1f} s after the {what}" for what, at in died)
        print(f"nothing was called for {gap:.2f} s, from {after}")


OPEN = "SELECT count(*) FROM job_queue WHERE status NOT IN ('done', 'failed', 'dead')"
IN_CALLED = """
    SELECT count(*), count(DISTINCT e)
    FROM job_queue, jsonb_array_elements_text(payload->'event_ids') e WHERE id::text = ANY (%s)
"""

UNCALLED = "SELECT count(*) FROM event_log WHERE outcome = 'job' AND job_id::text <> ALL (%s)"


def settled(running: Processes, connection: Connection, events: int) -> bool:
    """Every event and every job has its end."""
    running.ensure_alive()
    done = value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == events
    return done and value(connection, OPEN) == 0


def audit(connection: Connection, engine: EngineBeside, events: int) -> None:
    """Nothing is lost, nothing is done twice."""
    told = dict(connection.execute("SELECT outcome, count(*) FROM event_log GROUP BY outcome").fetchall())
    assert set(told) <= {"job", "superseded_by_newer_inbound"} and sum(told.values()) == events
    # a job that a newer one took in, or covered, has no call of its own: its events name the newer one
    in_called = connection.execute(IN_CALLED, [list(engine.effects())]).fetchone()
    assert in_called is not None and in_called[0] == in_called[1], "no event is in two jobs that were called"
    assert value(connection, UNCALLED, list(engine.effects())) == 0, "the job of every event was called"
    calls = Counter((one.job_id, one.attempt) for one in engine.requests())
    assert set(calls.values()) == {1}, "no attempt was called twice"
    assert set(engine.effects().values()) == {1}, "no effect twice"
    assert connection.execute("SELECT DISTINCT status FROM job_queue").fetchall() == [("done",)]


def test_a_leader_and_the_controller_die_and_nothing_is_lost_doubled_or_late(
    cluster: KafkaCluster,
    running: Processes,
    connection: Connection,
    database: str,
    prefix: str,
    engine: EngineBeside,
) -> None:
    began = time.monotonic()
    running.start("relay", "worker", "sink", "delays")
    started_s = time.monotonic() - began
    limit_s = LONGEST_PAUSE_S if started_s <= QUICK_START_S else 3 * LONGEST_PAUSE_S
    print(f"our processes started in {started_s:.1f} s: at most {limit_s:.0f} s")
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    patients = clinic.register(connection, [f"p{number}" for number in range(CONTACTS)])
    fed, done, written = threading.Event(), threading.Event(), [0]
    feeder = threading.Thread(target=feed, args=(database, clinic, patients, fed, written))
    supervisor = threading.Thread(target=supervise, args=(running, done))
    feeder.start()
    supervisor.start()
    died: list[tuple[str, float]] = []
    try:
        time.sleep(3)
        leader = cluster.node(leader_of(cluster, f"{prefix}{SOURCE}"))
        died.append((f"leader, node {leader.number}", time.time()))
        leader.kill()
        time.sleep(5)
        leader.start()
        time.sleep(2)
        controller = cluster.controller()
        died.append((f"controller, node {controller.number}", time.time()))
        controller.kill()
        time.sleep(5)
    finally:
        fed.set()
        done.set()
        feeder.join()
        supervisor.join()
    until(lambda: settled(running, connection, written[0]), seconds=40, every=0.25)
    time.sleep(1)  # a second effect would come late
    tell_pauses(engine, died)
    audit(connection, engine, written[0])
    pause = max(gap for gap, _ in gaps(engine))
    engine.treat(Scenario(mode="rate", retry_after="1", times=1), patients[0].contact_id)
    (again,) = clinic.write(connection, [Message(patients[0])])
    through = "SELECT status = 'done' AND attempts = 2 FROM job_queue WHERE source_event_id = %s"
    until(lambda: value(connection, through, again.event_id), 30)  # the delays have survived it, too
    assert pause <= limit_s, f"nothing was called for {pause:.1f} s"
