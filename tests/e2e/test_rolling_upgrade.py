"""An older version's processes beside this one's, under load: nothing is lost, nothing doubled.

docs/upgrade.md: once in the order it advises, with a worker that goes back in between, once in the order
that leaves the old sink to meet outcomes of a schema it doesn't know.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

import status
from ops.clinic import Clinic, Connection, Message
from ops.engine.serving import EngineBeside
from schemas.topic_names import APP_ID
from tests.e2e.conftest import MakeProcesses
from tests.e2e.older_versions import of_newest_release, run_from, without_newest_outcome
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

DONE = "SELECT count(*) FROM event_log WHERE status = 'done'"
UNFINISHED = "SELECT count(*) FROM job_queue WHERE status <> 'done'"
IN_JOBS = """
    SELECT count(*), count(DISTINCT e), (SELECT count(*) FROM event_log WHERE outcome = 'job')
    FROM job_queue, jsonb_array_elements_text(payload->'event_ids') e
"""
UNANSWERED = """
    SELECT count(*) FROM (
        SELECT DISTINCT ON (m.conversation_id) m.id
        FROM messages m ORDER BY m.conversation_id, m.sent_at DESC, m.created_at DESC, m.id DESC
    ) newest JOIN event_log e ON e.entity_id = newest.id WHERE e.outcome <> 'job'
"""


class Writer(threading.Thread):
    """Patients who write all the time, twenty messages a second, until it is stopped."""

    def __init__(self, database: str, connection: Connection) -> None:
        super().__init__()
        self._database = database
        self._clinic = Clinic.found(connection, debounce_ms=500)
        self._patients = self._clinic.register(connection, [f"p{number}" for number in range(100)])
        self._over = threading.Event()
        self.written = 0

    def run(self) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            while not self._over.wait(0.1):
                some = [self._patients[(self.written + one) % len(self._patients)] for one in range(2)]
                self.written += len(self._clinic.write(connection, [Message(patient) for patient in some]))

    def stop(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join()

    def more(self, count: int) -> None:
        """Wait until so many more were written."""
        before = self.written
        until(lambda: self.written >= before + count)


@pytest.fixture
def writer(database: str, connection: Connection) -> Iterator[Writer]:
    made = Writer(database, connection)
    yield made
    made.stop()


class Versions:
    """The processes of the older version, those of this one, and what changes hands between them."""

    def __init__(self, make: MakeProcesses, folder: Path, kafka: str, prefix: str, engine: str) -> None:
        settings = {"AGENT_ENGINE_URL": engine, "RAJADA_PERSON_SPACING_MS": "0"}
        self.old: Processes = make(folder / "old", **settings)
        self.old.sources = folder / "sources"
        self.old.sources.mkdir()
        self.new: Processes = make(folder / "new", **settings)
        self._admin = AdminClient({"bootstrap.servers": kafka, "log_level": 2})
        self._group = f"{prefix}{APP_ID}"

    def leave(self, which: Processes, name: str) -> None:
        """One process is stopped as an operator stops it."""
        assert which.kill(name, signal.SIGTERM) == 0, which.log(name).read_text()[-2_000:]

    def replace(self, name: str) -> None:
        """The new process comes, the old one goes; of what there may be only one, the other way round."""
        if name == "relay":
            self.leave(self.old, name)
        self.new.start(name)
        if name != "relay":
            self.leave(self.old, name)

    def until_both_take_events(self) -> None:
        """Both workers are in the group, and each reads events while the other does."""
        before = {one: counted(one, "worker", "read") for one in (self.old, self.new)}
        until(lambda: all(counted(one, "worker", "read") > count for one, count in before.items()), 120)
        assert self.workers() == 2

    def workers(self) -> int:
        """Members of the workers' group."""
        return len(self._admin.describe_consumer_groups([self._group])[self._group].result(10).members)


def counted(which: Processes, name: str, what: str) -> int:
    """How much of something a process has told so far."""
    said = status.read_counters(which.status, name)
    return 0 if said is None else int(said.values.get(what, 0))


def assert_nothing_lost_nothing_doubled(
    connection: Connection, writer: Writer, engine: EngineBeside, worker: Processes
) -> None:
    """Of everything that was written, when no more is."""
    writer.stop()
    until(lambda: value(connection, DONE) == writer.written, 120, every=0.2)
    until(lambda: value(connection, UNFINISHED) == 0, every=0.2)
    rows, events, told = connection.execute(IN_JOBS).fetchone() or ()
    assert rows == events == told, "an event with a job is in that one and no other"
    outcomes = {name for (name,) in connection.execute("SELECT DISTINCT outcome FROM event_log")}
    assert outcomes <= {"job", "superseded_by_newer_inbound"}
    assert value(connection, UNANSWERED) == 0, "every conversation's newest message has a job"
    effects = engine.effects()
    assert set(effects.values()) == {1}, "a turn was taken twice"
    jobs = {str(job) for (job,) in connection.execute("SELECT id FROM job_queue")}
    assert effects.keys() <= jobs
    assert value(connection, "SELECT count(*) FROM rajada.swept") == 0, "what came wasn't lost in between"
    assert value(connection, "SELECT count(*) FROM rajada.trace WHERE status = 'dead'") == 0
    assert worker.alive()


@pytest.fixture
def versions(
    processes: MakeProcesses, tmp_path: Path, kafka: str, prefix: str, engine: EngineBeside
) -> Versions:
    return Versions(processes, tmp_path, kafka, prefix, engine.url)


def begin(versions: Versions, writer: Writer, older: Callable[[Path], None]) -> None:
    """The older version runs alone, under load."""
    older(versions.old.sources)
    assert run_from(versions.old.sources)
    versions.old.start("sink", "delays", "worker", "relay")
    writer.start()
    writer.more(60)


def test_in_the_advised_order_and_back_and_forth_nothing_is_lost_and_nothing_doubled(
    versions: Versions, writer: Writer, connection: Connection, engine: EngineBeside
) -> None:
    begin(versions, writer, of_newest_release)
    versions.replace("sink")
    versions.replace("delays")
    versions.new.start("worker")
    versions.until_both_take_events()
    versions.leave(versions.new, "worker")
    writer.more(40)
    assert versions.workers() == 1, "the old one goes on from what the new one has left in the changelogs"
    versions.new.start("worker")
    versions.until_both_take_events()
    versions.leave(versions.old, "worker")
    versions.replace("relay")
    writer.more(40)
    assert not versions.old.alive()
    assert_nothing_lost_nothing_doubled(connection, writer, engine, versions.new)


def test_outcomes_that_the_old_sink_does_not_know_wait_for_the_new_one(
    versions: Versions, writer: Writer, connection: Connection, engine: EngineBeside
) -> None:
    """Writers before readers: not advised, and nothing is lost either."""
    begin(versions, writer, without_newest_outcome)
    versions.new.start("worker")
    versions.until_both_take_events()
    versions.leave(versions.old, "worker")
    until(lambda: counted(versions.old, "sink", "postponed") > 0)
    versions.replace("relay")
    versions.replace("delays")
    versions.replace("sink")
    writer.more(40)
    assert not versions.old.alive()
    assert_nothing_lost_nothing_doubled(connection, writer, engine, versions.new)
    assert counted(versions.new, "sink", "postponed") == 0
