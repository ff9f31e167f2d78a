"""`rajada tokens`, `whatsapp` and `group-links` as people type them, on a real Postgres and a real Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from db.group_links import GroupLinkRequest, enqueue_group_link_template
from db.sealing import Seals, is_sealed, new_key
from ops import cli
from ops.clinic import Connection
from ops.errors import exit_code_of
from schemas.codec import decode_command
from schemas.records import Command
from settings import Settings, get_settings
from streams import topics

SECRET = "EAAG-a-secret-token"
KEY, NEWER = new_key(), new_key()


@dataclass
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str

    @property
    def last(self) -> str:
        return self.out.strip().splitlines()[-1]


Rajada = Callable[..., Said]


@pytest.fixture
def rajada(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rajada]:
    """Runs a command on the database, `typed` being its input, with further variables set."""
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("RAJADA_SECRET_KEYS", KEY)

    def run(*arguments: str, typed: str = "", **environment: str) -> Said:
        with monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            get_settings.cache_clear()
            result = CliRunner().invoke(cli.app, list(arguments), input=typed)
        if result.exception is None or isinstance(result.exception, SystemExit):
            return Said(result.exit_code, result.output)
        return Said(exit_code_of(result.exception), str(result.exception))

    yield run
    get_settings.cache_clear()


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


@pytest.fixture
def school(connection: Connection) -> str:
    made = uuid4()
    connection.execute("INSERT INTO organizations (id, name, status) VALUES (%s, 'school', 'active')", [made])
    return str(made)


def stored(connection: Connection) -> str:
    row = connection.execute("SELECT access_token FROM rajada.whatsapp_numbers").fetchone()
    assert row is not None
    return str(row[0])


# -- tokens


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(
    rajada: Rajada, connection: Connection, school: str
) -> None:
    made = rajada("tokens", "add", school, "--name", "enrolments")
    token = made.out.splitlines()[0]
    assert made.code == 0 and token.startswith("rajada_") and "not shown again" in made.out
    _, id_, secret = token.split("_")
    listed = rajada("tokens", "ls").out
    assert id_ in listed and school in listed and "enrolments" in listed and secret not in listed
    assert json.loads(rajada("tokens", "ls", "--organization", school, "--json").out)[0]["id"] == id_
    assert "No tokens" in rajada("tokens", "ls", "--organization", str(uuid4())).out
    assert rajada("tokens", "revoke", id_).code == 0
    assert "No tokens" in rajada("tokens", "ls").out
    assert "revoked" in rajada("tokens", "ls", "--all").out
    found = connection.execute("SELECT made_by, revoked_by FROM rajada.tokens").fetchone()
    assert found is not None and None not in found


def test_wrong_ids_are_told(rajada: Rajada) -> None:
    nobody = rajada("tokens", "add", str(uuid4()))
    assert nobody.code == 12 and "no organization" in nobody.out
    assert rajada("tokens", "add", "school").code == 2
    assert rajada("tokens", "revoke", "nothing").code == 12


# -- WhatsApp numbers


def test_a_number_is_set_sealed_listed_without_its_secret_and_dropped(
    rajada: Rajada, connection: Connection, school: str
) -> None:
    done = rajada("whatsapp", "set", school, "2077", typed=f"{SECRET}\n")
    assert done.code == 0 and "0 group links were released" in done.out and SECRET not in done.out
    assert is_sealed(stored(connection)) and SECRET not in stored(connection)
    assert Seals([KEY]).open(stored(connection)).get_secret_value() == SECRET
    listed = rajada("whatsapp", "ls").out
    assert school in listed and "2077" in listed and SECRET not in listed and "fernet" not in listed
    assert rajada("whatsapp", "drop", school).code == 0
    assert rajada("whatsapp", "ls").out == ""
    assert rajada("whatsapp", "drop", school).code == 12


def test_what_can_be_no_number_is_refused_without_repeating_the_secret(rajada: Rajada, school: str) -> None:
    for organization, number, token, code in (
        (str(uuid4()), "2077", SECRET, 12),
        ("school", "2077", SECRET, 2),
        (school, "+55 11", SECRET, 2),
        (school, "2077", "two words", 2),
        (school, "2077", "", 2),
    ):
        refused = rajada("whatsapp", "set", organization, number, typed=f"{token}\n")
        assert refused.code == code and "words" not in refused.out and SECRET not in refused.out


def test_without_a_key_nothing_is_stored_and_the_message_says_how_to_make_one(
    rajada: Rajada, connection: Connection, school: str
) -> None:
    refused = rajada("whatsapp", "set", school, "2077", typed=f"{SECRET}\n", RAJADA_SECRET_KEYS="")
    assert refused.code != 0 and "rajada whatsapp key" in refused.out
    assert connection.execute("SELECT count(*) FROM rajada.whatsapp_numbers").fetchone() == (0,)
    with pytest.raises(psycopg.errors.CheckViolation):  # nobody else can store one in plain text either
        connection.execute("INSERT INTO rajada.whatsapp_numbers VALUES (%s, '2077', 'plain')", [UUID(school)])


def test_keys_are_changed_one_after_the_other(rajada: Rajada, connection: Connection, school: str) -> None:
    made = rajada("whatsapp", "key").out.strip()
    assert Seals([made]).can_seal and made != rajada("whatsapp", "key").out.strip()
    rajada("whatsapp", "set", school, "2077", typed=f"{SECRET}\n")
    both = f"{NEWER},{KEY}"
    assert "1 access tokens" in rajada("whatsapp", "reseal", RAJADA_SECRET_KEYS=both).out
    assert Seals([NEWER]).open(stored(connection)).get_secret_value() == SECRET
    assert "0 access tokens" in rajada("whatsapp", "reseal", RAJADA_SECRET_KEYS=both).out
    lacking = rajada("whatsapp", "reseal", RAJADA_SECRET_KEYS=KEY)
    assert lacking.code == 10 and "lacks their key" in lacking.out


def test_what_was_stored_in_plain_text_is_sealed_by_the_migration(
    rajada: Rajada, connection: Connection, school: str
) -> None:
    connection.execute("ALTER TABLE rajada.whatsapp_numbers DROP CONSTRAINT whatsapp_numbers_sealed")
    connection.execute("DELETE FROM rajada._yoyo_migration WHERE migration_id LIKE 'rajada-0012%'")
    connection.execute("INSERT INTO rajada.whatsapp_numbers VALUES (%s, '2077', %s)", [UUID(school), SECRET])
    without = rajada("migrate", RAJADA_SECRET_KEYS="")
    assert without.code == 0 and stored(connection) == SECRET, "it can be read as before"
    sealed = rajada("migrate")
    assert "sealed 1 access tokens" in sealed.out and SECRET not in sealed.out
    assert Seals([KEY]).open(stored(connection)).get_secret_value() == SECRET
    assert "sealed" not in rajada("migrate").out


# -- group links


def enrol(connection: Connection, school: str, number: int) -> str:
    """A group link in the queue; its id."""
    request = GroupLinkRequest(
        organization_id=UUID(school), enrolment_id=f"enr-{number}", flow="personal", student_name="Ana",
        phone=f"+55119{number:08d}", group_link="https://x/y", template_name="t", template_language="en",
    )  # fmt: skip
    return str(enqueue_group_link_template(connection, request).job_id)


def hold(connection: Connection, job: str, why: str) -> None:
    """As the sink writes a job that is held."""
    connection.execute("UPDATE group_link_dispatch_queue SET available_at = 'infinity' WHERE id = %s", [job])
    connection.execute(
        "INSERT INTO rajada.trace (organization_id, job_id, at, stage, status, outcome, replay, seq)"
        " SELECT organization_id, id, now(), 'execute', 'held', %s, 0, 5"
        " FROM group_link_dispatch_queue WHERE id = %s",
        [f"held:{why}", job],
    )


def test_they_are_listed_by_state_and_one_is_shown_with_its_phone_masked(
    rajada: Rajada, connection: Connection, school: str
) -> None:
    assert rajada("group-links", "ls").out == "No group links.\n"
    jobs = [enrol(connection, school, number) for number in range(3)]
    hold(connection, jobs[0], "no_credentials: none")
    connection.execute(
        "UPDATE group_link_dispatch_queue SET status = 'failed', attempts = 5, last_error = 'whatsapp_131026'"
        " WHERE id = %s",
        [jobs[1]],
    )
    listed = rajada("group-links", "ls").out
    assert listed.startswith("1 failed, 1 held, 1 pending") and "whatsapp_131026" in listed
    told = json.loads(rajada("group-links", "ls", "--json", "--status", "held", "--status", "failed").out)
    assert told["counts"] == {"failed": 1, "held": 1, "pending": 1}
    assert {one["id"] for one in told["links"]} == {jobs[0], jobs[1]}
    assert rajada("group-links", "ls", "--organization", str(uuid4())).out == "No group links.\n"
    shown = rajada("group-links", "show", jobs[1]).out
    assert "5" in shown and "whatsapp_131026" in shown and "+55119" not in shown
    assert json.loads(rajada("group-links", "show", jobs[0], "--json").out)["held"] is True
    assert rajada("group-links", "show", str(uuid4())).code == 12
    assert rajada("group-links", "show", "it").code == 2


def orders(kafka: str, settings: Settings) -> list[tuple[bytes, Command]]:
    """Key and order of every record of `dispatch.control`."""
    topic = settings.topic(topics.CONTROL)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": str(uuid4()), "enable.partition.eof": True})
    parts = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in parts])
    found, ended = [], 0
    while ended < len(parts):
        record = consumer.poll(10)
        assert record is not None
        if record.error() is not None:
            ended += 1
        else:
            found.append((record.key() or b"", decode_command(record.value() or b"")))
    consumer.close()
    return found  # type: ignore[return-value]  # keys are bytes, since nobody decodes them


def test_held_ones_are_sent_or_closed_by_orders_and_those_in_doubt_only_when_named(
    rajada: Rajada, connection: Connection, school: str, kafka: str, prefix: str
) -> None:
    settings = Settings(kafka_bootstrap_servers=kafka, topic_prefix=prefix, partitions=2)
    topics.ensure_topics(kafka, settings)
    servers = {"KAFKA_BOOTSTRAP_SERVERS": kafka, "RAJADA_TOPIC_PREFIX": prefix}
    wanting, doubtful, waiting, ended = (enrol(connection, school, number) for number in range(4))
    hold(connection, wanting, "no_credentials: none")
    hold(connection, doubtful, "unknown_outcome")
    connection.execute("UPDATE group_link_dispatch_queue SET status = 'sent' WHERE id = %s", [ended])

    asked = rajada("group-links", "retry", typed="n\n", **servers)
    assert asked.code == 1 and "Send 1 held group links" in asked.out
    assert "1 group links were released" in rajada("group-links", "retry", "--yes", **servers).out
    assert rajada("group-links", "retry", doubtful, "--reason", "not there", **servers).code == 0
    assert "run now" in rajada("group-links", "retry", waiting, **servers).out
    assert rajada("group-links", "close", doubtful, **servers).code == 0
    assert rajada("group-links", "retry", ended, **servers).code == 10
    done = rajada("whatsapp", "set", school, "2077", typed=f"{SECRET}\n", **servers)
    assert "1 group links were released" in done.out, "those that waited for a number"

    told = orders(kafka, settings)
    assert sorted((command.job_id, command.action) for _, command in told) == sorted(
        [
            (wanting, "release"), (wanting, "release"), (doubtful, "release"), (waiting, "run_now"),
            (doubtful, "cancel"),
        ]
    )  # fmt: skip
    assert {key.partition(b":")[0].decode() for key, _ in told} == {school}
    assert {command.reason for _, command in told if command.job_id == doubtful} == {
        "not there",
        "closed by hand",
    }
