"""A real registry (Apicurio, Confluent's API): our schemas in it, and records that others share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from typer.testing import CliRunner

from ops.cli import app
from ops.doctor.registry import registry_verdict
from ops.embedded.registry import EmbeddedRegistry
from ops.registered import check, register
from schemas import framing
from schemas.codec import decode_event, decode_job, decode_outcome, encode_job, encode_outcome, settle
from schemas.errors import UnknownSchema
from schemas.history import Version, versions
from schemas.records import Job, Outcome
from schemas.registry import Incompatible, NotRegistered, RegistryAway, SchemaRegistry, registry_of
from settings import Settings, get_settings
from streams.events import EVENT_TYPE, read_row
from tests.unit.builders import row, uid
from tests.unit.job_worlds import job_of

JOB = job_of(1)
OUTCOME = Outcome(organization_id=uid("o"), at_ms=1, stage="execute", events=(), status="done", job=JOB)
COLUMNS = ("id", "organization_id", "event_type", "payload")

Connect = Callable[[], SchemaRegistry]


@pytest.fixture
def connect(registry_url: str, prefix: str, tmp_path: Path) -> Iterator[Connect]:
    """Makes clients as the processes of one installation have them."""
    made: list[SchemaRegistry] = []

    def one() -> SchemaRegistry:
        settings = Settings(SCHEMA_REGISTRY_URL=registry_url, topic_prefix=prefix, home=tmp_path)
        client = registry_of(settings)
        assert client is not None
        made.append(client)
        return client

    yield one
    for client in made:
        client.close()


def test_our_schemas_are_registered_once_and_found_again(connect: Connect) -> None:
    registry = connect()
    assert all(one.problem == "not registered: run `rajada schemas register`" for one in check(registry))
    made = register(registry)
    assert all(one.made and not one.problem for one in made)
    assert [one.id for one in check(registry)] == [one.id for one in made]
    assert not any(one.made for one in register(registry))
    assert {registry.demanded(one.subject) for one in made} == {"BACKWARD_TRANSITIVE"}


def test_an_incompatible_schema_is_refused_with_its_reason(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = connect()
    register(registry)
    newest = versions("Job")[-1]
    broken = json.loads(newest.text)
    broken["fields"].append({"name": "must_have", "type": "string"})
    (subject,) = registry.subjects_of("Job")
    assert any("must_have" in problem for problem in registry.problems(subject, json.dumps(broken)))
    with pytest.raises(Incompatible, match="must_have"):
        registry.register(subject, json.dumps(broken))
    next_one = Version("Job", newest.number + 1, json.dumps(broken))
    monkeypatch.setattr("ops.registered.versions", lambda record: (*versions(record), next_one)[-1:])
    (told,) = [one for one in check(registry) if one.subject == subject]
    assert "would refuse it" in told.problem and told.id is None
    (told,) = [one for one in register(registry) if one.subject == subject]
    assert told.problem.startswith("refused: ") and not told.made


def test_what_we_write_is_read_by_confluents_deserializer(connect: Connect, registry_url: str) -> None:
    register(connect())
    theirs = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))
    with framing.asking(connect()):
        job, outcome = encode_job(JOB), encode_outcome(OUTCOME)
    context = SerializationContext("any", MessageField.VALUE)
    assert msgspec.convert(theirs(job, context), Job) == JOB
    assert msgspec.convert(theirs(outcome, context), Outcome) == OUTCOME


def test_what_confluents_serializer_writes_is_read_by_us(
    connect: Connect, registry_url: str, prefix: str
) -> None:
    register(connect())
    client = SchemaRegistryClient({"url": registry_url})
    look_up = {"auto.register.schemas": False, "use.latest.version": True}
    jobs = AvroSerializer(client, conf=look_up)
    data = jobs(msgspec.to_builtins(JOB), SerializationContext(f"{prefix}dispatch.jobs", MessageField.VALUE))
    own = {
        "type": "record",
        "name": "EventLogRow",
        "namespace": "crm",
        "fields": [{"name": name, "type": "string"} for name in COLUMNS],
    }
    event = {name: row()[name] for name in COLUMNS}
    written = AvroSerializer(client, json.dumps(own))(
        event, SerializationContext(f"{prefix}crm", MessageField.VALUE)
    )
    with framing.asking(connect()):
        assert decode_job(data) == JOB
        assert decode_event(written) == event
        found = read_row(written, EVENT_TYPE)
        assert isinstance(found, tuple) and found[0] == event["id"]


def test_before_our_schemas_are_registered_a_process_does_not_start(connect: Connect) -> None:
    with framing.asking(connect()), pytest.raises(NotRegistered, match="run `rajada schemas register` first"):
        settle()


def test_the_command_and_the_doctor_tell_what_is_missing(
    registry_url: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("SCHEMA_REGISTRY_URL", registry_url),
        ("RAJADA_TOPIC_PREFIX", prefix),
        ("RAJADA_HOME", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    get_settings.cache_clear()
    try:
        verdict = registry_verdict(get_settings())
        assert verdict.level == "fail" and "rajada schemas register" in verdict.advice
        run = CliRunner().invoke
        assert run(app, ["schemas", "check"]).exit_code == 10
        done = run(app, ["schemas", "register", "--json"])
        assert done.exit_code == 0
        assert {one["subject"] for one in json.loads(done.output)["schemas"]} == {
            f"{prefix}{topic}-value"
            for topic in ("dispatch.jobs", "dispatch.outcomes", "dispatch.control", EVENT_TYPE)
        } | {f"{prefix}group_link.dispatch_requested-value"}
        assert run(app, ["schemas", "check"]).exit_code == 0
        assert registry_verdict(get_settings()).level == "ok"
    finally:
        framing.ask(lambda: None)
        get_settings.cache_clear()


def test_a_registry_that_went_away_leaves_what_is_known_and_refuses_what_is_new(
    connect: Connect, registry_server: EmbeddedRegistry
) -> None:
    register(connect())
    with framing.asking(connect()):
        settle()
        job, outcome = encode_job(JOB), encode_outcome(OUTCOME)
    foreign = connect().register("somebody", '{"type": "record", "name": "A", "fields": []}')
    registry_server.kill()
    with framing.asking(connect()):  # a process that starts now
        settle()
        assert encode_job(JOB) == job
        assert decode_outcome(outcome) == OUTCOME
        with pytest.raises(UnknownSchema, match="gives no answer"):
            decode_event(framing.frame(foreign))
    never_there = SchemaRegistry(registry_server.url)
    with framing.asking(never_there), pytest.raises(RegistryAway, match="start it, or correct"):
        settle()
    never_there.close()
