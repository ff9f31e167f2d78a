"""Three forms of a value told apart by its first bytes; ids of a registry asked once (schemas/framing.py)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread

import fastavro
import httpx
import msgspec
import pytest
from hypothesis import given

from schemas import framing
from schemas.codec import (
    decode_event,
    decode_job,
    decode_outcome,
    encode_event,
    encode_job,
    encode_outcome,
    is_avro,
    record_name,
    self_contained,
    settle,
)
from schemas.errors import BadAvro, UnknownSchema
from schemas.history import versions
from schemas.registry import Known, NotRegistered, RegistryAway, SchemaRegistry, registry_of
from settings import Settings
from sinks.letters import Dead, Later
from sinks.reading import read
from streams.contact_jobs import ContactJobs
from streams.events import EVENT_TYPE, read_row
from streams.heads import Head, Origin, State
from tests.unit.builders import row, uid
from tests.unit.job_worlds import job_of
from tests.unit.schemas.test_codec import outcomes
from web.orders import Orders

JOB = job_of(1)


class Registry:
    """Ids and schemas of a registry, and how often it was asked."""

    def __init__(self) -> None:
        self.ids = {"Job": 7, "Outcome": 8, "Command": 9, "DispatchRequested": 10}
        self.schemas = {number: versions(record)[-1].text for record, number in self.ids.items()}
        self.asked = 0
        self.away = False

    def id_of(self, record: str) -> int:
        self.asked += 1
        return self.ids[record]

    def schema_of(self, schema_id: int) -> str:
        self.asked += 1
        if self.away or schema_id not in self.schemas:
            raise RegistryAway("away")
        return self.schemas[schema_id]


@pytest.fixture
def registry() -> Iterator[Registry]:
    one = Registry()
    with framing.asking(one):
        yield one


def test_with_a_registry_a_record_starts_with_zero_and_its_schemas_id(registry: Registry) -> None:
    data = encode_job(JOB)
    assert data[:5] == b"\x00\x00\x00\x00\x07"
    assert decode_job(data) == JOB
    with framing.asking(None):
        alone = encode_job(JOB)
    assert alone[10:] == data[5:]
    assert decode_job(alone) == JOB, "what was written before the registry came stays readable"


def test_an_id_is_asked_for_once(registry: Registry) -> None:
    settle()
    assert registry.asked == 3
    for _ in range(5):
        decode_job(encode_job(JOB))
    assert registry.asked == 3


def test_an_older_version_is_known_by_the_schema_that_its_id_names(registry: Registry) -> None:
    older = versions("Job")[0]
    registry.schemas[3] = json.dumps(json.loads(older.text))  # other blanks, the same schema
    out = BytesIO()
    fastavro.schemaless_writer(out, json.loads(older.text), msgspec.to_builtins(JOB))
    assert decode_job(framing.frame(3) + out.getvalue()) == JOB
    assert record_name(framing.frame(3) + out.getvalue()) == "Job"


@pytest.mark.thorough
@given(outcomes)
def test_a_whole_outcome_comes_back_in_either_form(outcome: object) -> None:
    with framing.asking(Registry()):
        framed = encode_outcome(outcome)  # type: ignore[arg-type]  # hypothesis' strategy is untyped here
        assert decode_outcome(framed) == outcome


def test_an_outcome_takes_the_body_of_a_job_in_either_form(registry: Registry) -> None:
    with framing.asking(None):
        alone = encode_job(JOB)
    outcome = decode_outcome(_outcome_bytes())
    assert encode_outcome(outcome, alone) == encode_outcome(outcome, encode_job(JOB))


def _outcome_bytes() -> bytes:
    from schemas.records import Outcome

    return encode_outcome(
        Outcome(organization_id=uid("o"), at_ms=1, stage="execute", events=(), status="done", job=JOB)
    )


def test_another_record_of_ours_is_named_by_its_id_too(registry: Registry) -> None:
    with pytest.raises(BadAvro, match="it is a Job"):
        decode_outcome(encode_job(JOB))
    assert record_name(encode_job(JOB)) == "Job"
    assert record_name(framing.frame(99) + b"x") is None


def test_without_a_registry_an_id_is_an_unknown_schema_with_its_number() -> None:
    with pytest.raises(UnknownSchema, match="id 7 is not known: no registry is named here"):
        decode_job(framing.frame(7) + b"body")


def test_a_registry_that_is_away_makes_new_ids_unknown_and_leaves_known_ones(registry: Registry) -> None:
    data = encode_job(JOB)
    registry.away = True
    assert decode_job(data) == JOB
    with pytest.raises(UnknownSchema, match="id 3 is not known: away"):
        decode_job(framing.frame(3) + b"body")


def test_a_newer_version_of_ours_is_not_read_with_what_it_lost(registry: Registry) -> None:
    newer = json.loads(versions("Job")[-1].text)
    newer["fields"].append({"name": "new", "type": "string", "default": ""})
    registry.schemas[20] = json.dumps(newer)
    with pytest.raises(UnknownSchema, match="a Job of a version that is not committed here"):
        decode_job(framing.frame(20) + b"body")


def test_what_is_no_avro_schema_is_an_unknown_one(registry: Registry) -> None:
    for number, text in enumerate(('{"type": "object"}', "no json", "[]", '{"type": "record"}'), 30):
        registry.schemas[number] = text
        with pytest.raises(UnknownSchema):
            decode_event(framing.frame(number) + b"body")


def test_an_event_with_a_schema_of_somebody_else_is_read_as_a_row(registry: Registry) -> None:
    fields = [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "organization_id", "type": "string"},
        {"name": "event_type", "type": ["null", "string"]},
        {"name": "payload", "type": "string"},
        {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    schema = {"type": "record", "name": "Value", "namespace": "crm.public.event_log", "fields": fields}
    registry.schemas[40] = json.dumps(schema)
    out = BytesIO()
    datum = {"id": uid("e"), "organization_id": uid("o"), "event_type": EVENT_TYPE, "payload": "{}"}
    bare = [{**field, "type": "string"} if field["name"] == "id" else field for field in fields]
    fastavro.schemaless_writer(out, {**schema, "fields": bare}, {**datum, "created_at": 1_700_000_000_000})
    found = read_row(framing.frame(40) + out.getvalue(), EVENT_TYPE)
    assert isinstance(found, tuple) and found[0] == uid("e")
    assert read_row(encode_event(row()), EVENT_TYPE) == read_row(_alone(row()), EVENT_TYPE)


def _alone(event: dict[str, object]) -> bytes:
    with framing.asking(None):
        return encode_event(event)


def test_what_a_worker_keeps_of_a_job_needs_no_registry(registry: Registry) -> None:
    head = Head(State.WAITING)
    ContactJobs().seat(head, JOB, encode_job(JOB), Origin("dispatch.jobs", 0, 1, 2, []))
    with framing.asking(None):
        assert decode_job(head.job) == JOB
        assert self_contained(head.job) == head.job
        assert self_contained(b"\x00\x00\x00\x00\x05?") == b"\x00\x00\x00\x00\x05?"


def test_json_is_neither() -> None:
    assert not is_avro(b'{"id": 1}') and not is_avro(b"") and not is_avro(b"\x00\x00\x00\x00")
    assert is_avro(framing.frame(1))


@dataclass(frozen=True)
class Read:
    """A record of the outcomes as the sink has it."""

    value: bytes
    timestamp: int = 1_000
    topic: str = "dispatch.outcomes"
    partition: int = 0
    offset: int = 5
    key: bytes = b"o:c"
    headers: tuple[tuple[str, bytes], ...] = ()


def test_a_sink_holds_an_id_that_it_can_not_tell_for_an_hour_then_it_is_dead_with_its_bytes() -> None:
    record = Read(framing.frame(7) + b"body")
    later = read(record, 1_000)
    assert isinstance(later, Later)
    dead = read(replace(record, headers=tuple(later.headers)), 1_000 + 3_600_000)
    assert isinstance(dead, Dead) and dead.reason == "unknown_schema" and dead.record.value == record.value


# -- the client: what it does without an answer


def client(tmp_path: Path, clock: list[float]) -> SchemaRegistry:
    return SchemaRegistry("http://127.0.0.1:1/", kept_in=tmp_path / "ids.json", clock=lambda: clock[0])


def test_without_an_answer_nothing_is_asked_for_ten_seconds(tmp_path: Path) -> None:
    clock = [100.0]
    registry = client(tmp_path, clock)
    with pytest.raises(RegistryAway, match="gives no answer"):
        registry.schema_of(5)
    clock[0] += 9
    with pytest.raises(RegistryAway, match="a moment ago"):
        registry.schema_of(6)
    clock[0] += 2
    with pytest.raises(RegistryAway, match="gives no answer"):
        registry.schema_of(6)
    registry.close()


def test_what_is_known_outlives_the_process_and_belongs_to_one_address(tmp_path: Path) -> None:
    subject = f"dispatch.jobs-value {versions('Job')[-1].fingerprint.hex()}"
    known = Known("http://127.0.0.1:1", {subject: 4}, {4: versions("Job")[-1].text})
    (tmp_path / "ids.json").write_bytes(msgspec.json.encode(known))
    registry = client(tmp_path, [0.0])
    assert registry.id_of("Job") == 4 and registry.schema_of(4) == versions("Job")[-1].text
    with pytest.raises(RegistryAway, match="start it, or correct SCHEMA_REGISTRY_URL"):
        registry.id_of("Outcome")
    registry.close()
    other = SchemaRegistry("http://127.0.0.1:2", kept_in=tmp_path / "ids.json")
    assert other.known.ids == {}
    other.close()


def test_answers_that_can_not_be_used_say_what_to_do(tmp_path: Path) -> None:
    answers = {"/a": 401, "/b": 500, "/c": 200, "/d": 404}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(answers[request.url.path], text="<html>")

    registry = client(tmp_path, [0.0])
    registry._client = httpx.Client(base_url="http://r", transport=httpx.MockTransport(answer))
    for path, told in (("/a", "SCHEMA_REGISTRY_USERNAME"), ("/b", "answers 500"), ("/c", "/apis/ccompat/v7")):
        with pytest.raises(RegistryAway, match=told):
            registry._ask("GET", path, dict[str, object])
    assert registry._ask("GET", "/d", dict[str, object]) is None


def test_a_login_goes_along_and_one_that_is_refused_is_told(tmp_path: Path) -> None:
    class Guarded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers.get("Authorization") == f"Basic {b64encode(b'me:secret').decode()}"
            body = b'{"schema": "\\"string\\""}' if known else b"{}"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Guarded) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        for password, told in (("secret", None), ("wrong", "SCHEMA_REGISTRY_USERNAME")):
            registry = registry_of(
                Settings(
                    home=tmp_path / password,
                    SCHEMA_REGISTRY_URL=url,
                    SCHEMA_REGISTRY_USERNAME="me",
                    SCHEMA_REGISTRY_PASSWORD=password,
                )
            )
            assert registry is not None
            if told is None:
                assert registry.schema_of(1) == '"string"'
            else:
                with pytest.raises(RegistryAway, match=told):
                    registry.schema_of(1)
            registry.close()
        server.shutdown()


def test_without_an_address_there_is_no_registry(tmp_path: Path) -> None:
    assert registry_of(Settings(home=tmp_path)) is None
    named = registry_of(
        Settings(home=tmp_path, topic_prefix="t.", SCHEMA_REGISTRY_URL="https://registry/apis/ccompat/v7")
    )
    assert named is not None
    assert named.subjects_of("DispatchRequested") == (
        "t.ai_agent.dispatch_requested-value",
        "t.group_link.dispatch_requested-value",
    )
    assert issubclass(NotRegistered, Exception)
    named.close()


def test_an_order_whose_schema_has_no_id_yet_is_not_given() -> None:
    def without_an_id() -> tuple[bytes, bytes]:
        raise RegistryAway("away")

    orders = Orders(Settings(kafka_bootstrap_servers="127.0.0.1:1"))
    assert not orders._order(without_an_id)
