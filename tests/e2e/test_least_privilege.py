"""The whole main path where Kafka and Postgres let nobody in without TLS, a login, and rights.

Each process has a login of its own in both; what it may do is what `rajada topics acls` and `rajada roles`
say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import httpx
import psycopg
import pytest
import trustme
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from db import roles as database_roles
from db.migrate import migrate
from ops.clinic import Clinic, Connection, Message
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from ops.kafka_roles import ROLES
from ops.whatsapp.serving import WhatsAppBeside
from tests.e2e import group_links
from tests.e2e.group_links import School
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value
from tests.live_page import Browser
from tests.locked import ADMIN, PASSWORD, LockedKafka, LockedPostgres
from tests.servers import POSTGRES_OPTIONS
from web.pages.shown import LIVE

pytestmark = pytest.mark.long

PREFIX = "acme."
DATABASE = "crm"
STRANGER = "stranger"
"""A login without any right."""
ALL = ("relay", "worker", "delays", "sink", "web", "reconciler")


def login(role: str) -> str:
    return f"rajada-{role}"


@pytest.fixture(scope="module")
def kafka_locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedKafka]:
    server = LockedKafka(tmp_path_factory.mktemp("kafka") / "data")
    server.users = (STRANGER, *(login(role) for role in ROLES))
    server.authority = trustme.CA()
    with server:
        yield server


@pytest.fixture(scope="module")
def postgres_locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedPostgres]:
    folder = tmp_path_factory.mktemp("postgres") / "data"
    with LockedPostgres(folder, options=POSTGRES_OPTIONS) as server:
        url = server.ensure_database(DATABASE)
        migrate(url, crm="ours")
        yield server


@pytest.fixture(scope="module")
def installed(
    kafka_locked: LockedKafka, postgres_locked: LockedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Processes:
    """The installation as its documents say: access lists, roles, topics; and each process' own login."""
    made = Processes(
        tmp_path_factory.mktemp("installed"),
        kafka_locked.bootstrap,
        postgres_locked.url_of(DATABASE),
        PREFIX,
        RAJADA_PARTITIONS="4",
        RAJADA_JOBS_PAUSED="0",
        RAJADA_PUBLICATION="rajada",
    )
    made.environment.update(kafka_locked.access(ADMIN))
    asked = made.rajada("topics", "acls", "--apply", "--yes")
    assert asked.returncode == 0, asked.stderr
    asked = made.rajada("roles", "--apply", "--yes")
    assert asked.returncode == 0, asked.stderr
    with psycopg.connect(postgres_locked.url_of(DATABASE), autocommit=True) as connection:
        for role in database_roles.ROLES:
            connection.execute(f"ALTER ROLE rajada_{role} PASSWORD '{PASSWORD}'".encode())
    postgres_locked.lock()
    for role in (*ALL, "operator"):
        made.own[role] = kafka_locked.access(login(role))
        # `delays` reaches no database: it must be content with one that lets it not in
        made.own[role]["DATABASE_URL"] = postgres_locked.url_as(f"rajada_{role}", DATABASE)
    made.environment = {
        name: text for name, text in made.environment.items() if not name.startswith("KAFKA_")
    }
    asked = made.rajada("topics", "ensure")
    assert asked.returncode == 0, asked.stderr
    assert not [name for name in made.environment if name.startswith("KAFKA_")], "no login that all share"
    return made


@pytest.fixture
def connection(postgres_locked: LockedPostgres) -> Iterator[Connection]:
    with psycopg.connect(postgres_locked.url_of(DATABASE), autocommit=True) as opened:
        yield opened


@pytest.fixture
def running(installed: Processes, engine: EngineBeside, whatsapp: WhatsAppBeside) -> Iterator[Processes]:
    more = group_links.settings(
        whatsapp, AGENT_ENGINE_URL=engine.url, RAJADA_ALERTS_EVERY_S="1", RAJADA_SWEEP_EVERY_S="1"
    )
    installed.environment.update(more, RAJADA_RECONCILE_CRON="* * * * * *", RAJADA_RECONCILE_JITTER_S="0")
    yield installed
    installed.stop()


def the_live_page_shows_and_orders(running: Processes, connection: Connection) -> None:
    """Every page is shown, and the one dead letter there is is dropped by the service itself."""
    made = running.rajada("tokens", "page", "add", "on-call", "--operator", "--phones")
    assert made.returncode == 0, made.stderr
    with httpx.Client(base_url=running.told("web"), trust_env=False, timeout=60) as client:
        browser = Browser(client)
        assert browser.log_in(made.stdout.split()[0]).status_code == 303
        for path in (*LIVE, "/letters"):
            shown = browser.get(f"/live{path}")
            assert shown.status_code == 200, (path, shown.text[:300])
        (letter,) = set(re.findall(r'href="(/live/letters/[a-z]+/\d+/\d+)"', shown.text))
        assert browser.get(letter).status_code == 200
        assert browser.post(f"{letter}/drop", reason="too large").status_code in (200, 303)
    dropped = "SELECT count(*) FROM rajada.dropped WHERE reason = 'too large'"
    until(lambda: value(connection, dropped) == 1, 10)


def test_each_process_does_its_work_with_no_more_rights_than_its_own(
    running: Processes, connection: Connection, engine: EngineBeside, whatsapp: WhatsAppBeside
) -> None:
    running.start(*ALL)
    engine.treat(Scenario(mode="rate", retry_after="1", times=1))
    clinic = Clinic.found(connection, debounce_ms=3_000)  # one window holds the burst anywhere
    (ana,) = clinic.register(connection, ["Ana"])
    burst = [clinic.write(connection, [Message(ana)])[0] for _ in range(3)]
    through = """
        SELECT j.status = 'done' AND j.attempts = 2
        FROM event_log e JOIN job_queue j ON j.id = e.job_id WHERE e.id = %s
    """
    until(lambda: value(connection, through, burst[0].event_id), 40)
    assert list(engine.effects().values()) == [1]

    school = School.found(connection, running)
    phone = school.enrol(1)
    sent = "SELECT status = 'sent' FROM group_link_dispatch_queue WHERE phone = %s"
    until(lambda: value(connection, sent, phone), 40)

    connection.execute(
        "INSERT INTO connect.whatsapp_instances (organization_id, state, state_since)"
        " VALUES (%s, 'provisioning', now() - interval '1 day')",
        [uuid4()],
    )
    failed = "SELECT count(*) FROM connect.whatsapp_instances WHERE state = 'provisioning_failed'"
    until(lambda: value(connection, failed) == 1, 20)

    # a link too large for its topic is the relay's to bury, and the sink's to tell
    told = "SELECT outcome FROM event_log WHERE id = %s"
    event_id = uuid4()
    connection.execute(
        "INSERT INTO event_log (id, organization_id, event_type, entity_kind, payload) VALUES"
        " (%s, %s, 'ai_agent.dispatch_requested', 'message', jsonb_build_object('x', repeat('x', 5000000)))",
        [event_id, clinic.organization_id],
    )
    until(lambda: value(connection, told, event_id) == "record_too_large", 30)

    the_live_page_shows_and_orders(running, connection)
    # the worker's sweep and the sink's alert pass have had their turn, too
    until(lambda: value(connection, "SELECT count(*) FROM rajada.leases WHERE name = 'sweep'") == 1, 20)
    until(lambda: value(connection, "SELECT count(*) FROM rajada.leases WHERE name = 'alerts'") == 1, 20)
    assert set(running.alive()) == set(ALL)
    for name in ALL:
        log = running.log(name).read_text(errors="replace")
        for word in ("permission denied", "authoriz", "AUTHORIZ", "Authoriz"):
            assert word not in log, f"{name}: {[line for line in log.splitlines() if word in line][:3]}"

    doctor = running.doctor()
    assert not [one for one in doctor if one["level"] == "fail"], doctor
    listed = running.rajada("dlq", "ls")
    assert listed.returncode == 0 and "permission" not in listed.stderr, listed.stdout + listed.stderr
    why = running.rajada("why", str(burst[0].event_id))
    assert why.returncode == 0, why.stderr


FORBIDDEN = {
    "sink": ["dispatch.jobs", "ai_agent.dispatch_requested", "rajada-dispatch-jobs-changelog"],
    "relay": ["dispatch.jobs", "dispatch.control"],
    "web": ["dispatch.dead", "rajada-dispatch-contacts-changelog"],
    "delays": ["rajada-dispatch-contacts-changelog"],
    "worker": ["dispatch.control", "conect-whatsapp-reconciliation-queue"],
    "reconciler": ["dispatch.jobs", "dispatch.outcomes"],
}
UNREADABLE = {
    "sink": "dispatch.jobs", "web": "dispatch.outcomes", "relay": "ai_agent.dispatch_requested",
    "reconciler": "dispatch.jobs", "delays": "dispatch.jobs", "worker": "dispatch.outcomes",
}  # fmt: skip


REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


def written(client: dict[str, str | int], topics: list[str]) -> list[int | None]:
    """The errors with which Kafka answers a record for each of these topics; None: it took it."""
    producer = Producer({**client, "message.timeout.ms": 5_000})
    errors: list[int | None] = []
    for topic in topics:
        producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error and error.code()))
    producer.flush(10)
    return errors


def read(client: dict[str, str | int], topic: str) -> int | None:
    """The error with which Kafka answers who wants to read this topic."""
    consumer = Consumer({**client, "group.id": "any", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(10)
    consumer.close()
    error = message.error() if message is not None else None
    return error.code() if error is not None else None


def test_what_a_role_may_not_do_kafka_refuses(installed: Processes, kafka_locked: LockedKafka) -> None:
    for role, names in FORBIDDEN.items():
        client = kafka_locked.client(login(role))
        errors = written(client, [f"{PREFIX}{name}" for name in names])
        assert errors == [KafkaError.TOPIC_AUTHORIZATION_FAILED] * len(names), role
        assert read(client, f"{PREFIX}{UNREADABLE[role]}") in REFUSED, role
        with pytest.raises(KafkaException) as refused:
            admin = AdminClient(client)
            admin.create_topics([NewTopic(f"{PREFIX}mine", 1, 1)])[f"{PREFIX}mine"].result(10)
        assert refused.value.args[0].code() in REFUSED, role


def test_a_login_without_rights_and_a_wrong_password_are_told(
    installed: Processes, kafka_locked: LockedKafka
) -> None:
    before = installed.own["operator"]
    try:
        installed.own["operator"] = {**before, **kafka_locked.access(STRANGER)}
        found = installed.rajada("topics", "ensure")
        assert found.returncode != 0 and "uthoriz" in found.stderr, found.stderr
        installed.own["operator"] = {**before, **kafka_locked.access(login("operator"), "wrong")}
        found = installed.rajada("topics", "check")
        assert found.returncode != 0 and "Traceback" not in found.stderr, found.stderr
    finally:
        installed.own["operator"] = before
