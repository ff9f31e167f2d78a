"""docs/asyncapi.yaml is the code's topics, and a document that AsyncAPI 3 allows."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from ops.asyncapi import as_yaml, described, document, page
from ops.cli import tree
from ops.topic_records import RECORDS, lies_in
from schemas.dead import Cause, dead_headers
from schemas.history import CURRENT_FILES
from settings import Settings, get_settings
from streams.topics import TOPICS
from tests import yaml_texts

PAGE = Path(__file__).parents[2] / "docs/asyncapi.yaml"
SCHEMA = Path(__file__).parents[1] / "vendored/asyncapi-3.0.0.json"
BARE = Settings.model_construct()


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    """Settings are read anew, here and by whoever comes next."""
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    return Draft7Validator(json.loads(SCHEMA.read_text()))


def test_the_page_is_what_the_code_says() -> None:
    assert page() == PAGE.read_text(), "python -m ops.asyncapi > docs/asyncapi.yaml"


def test_our_yaml_is_read_as_what_was_written() -> None:
    assert yaml_texts.read(PAGE.read_text()) == json.loads(json.dumps(document(BARE)))
    odd = {"a b": ["", None, True, -1, 0.5, [], {}, [{"x": "y: #z\n'"}], "no", "é"], "1": {"no": [[1], []]}}
    assert yaml_texts.read(as_yaml(odd)) == odd


def test_the_document_is_one_that_asyncapi_allows(validator: Draft7Validator) -> None:
    assert list(validator.iter_errors(document(BARE))) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("operations", "sink.receive.dispatch.outcomes", "action"), "read"),
        (("channels", "dispatch.jobs", "bindings", "kafka", "partitions"), 0),
        (("channels", "dispatch.jobs", "surprise"), 1),
        (("components", "messages", "Job", "payload", "schema", "type"), "recrod"),
    ],
)
def test_the_schema_would_refuse_mistakes(
    place: tuple[str, ...], value: object, validator: Draft7Validator
) -> None:
    wrong = copy.deepcopy(json.loads(json.dumps(document(BARE))))
    inner = wrong
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    assert not validator.is_valid(wrong)


def test_every_reference_leads_somewhere() -> None:
    whole = document(BARE)

    def references(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    found = set(references(whole))
    assert len(found) > 20
    for reference in found:
        inner: object = whole
        for part in reference.removeprefix("#/").split("/"):
            assert isinstance(inner, dict) and part in inner, reference
            inner = inner[part]


def test_every_topic_is_told_and_every_schema_of_ours_used() -> None:
    told = document(BARE)["channels"]
    assert isinstance(told, dict) and list(told) == [topic.name for topic in TOPICS]
    used = {name for topic in TOPICS for name in lies_in(topic.name).records}
    assert used == set(RECORDS)
    assert {records.avro for records in RECORDS.values() if records.avro} == set(CURRENT_FILES)


def test_every_topic_has_readers_and_writers_unless_nobody_should() -> None:
    silent = {one.name for one in described(BARE) if not one.readers}
    assert silent == {"dispatch.clock"}
    assert [one.name for one in described(BARE) if not one.writers] == []


def test_the_headers_of_a_death_are_told() -> None:
    class Record:
        topic, partition, offset, timestamp, headers = "dispatch.jobs", 1, 2, 3, ()

    written = dead_headers(Record(), Cause("sink", "bad_avro", "…", "event", 1, "job"), 4)
    assert {name for name, _ in written} <= RECORDS["DeadLetter"].headers.keys()


def test_an_installation_is_told_with_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAJADA_TOPIC_PREFIX", "blue.")
    told = yaml_texts.read(CliRunner().invoke(tree(), ["topics", "describe", "--asyncapi"]).output)
    assert told["channels"]["dispatch.jobs"]["address"] == "blue.dispatch.jobs"
    group = told["operations"]["sink.receive.dispatch.outcomes"]["bindings"]["kafka"]["groupId"]
    assert group["enum"] == ["blue.rajada-sink"]
    assert "blue.dispatch.dead" in CliRunner().invoke(tree(), ["topics", "describe"]).output
