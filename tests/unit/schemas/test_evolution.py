"""A schema can't change in a way that makes records on the topics unreadable."""

import json
from pathlib import Path

import msgspec
import pytest

from schemas.codec import decode_command, decode_event, decode_job, decode_outcome
from schemas.evolution import incompatibilities, problems
from schemas.history import CURRENT_FILES, Version, current_text, versions
from schemas.records import Alert, Command, EventOutcome, EventRef, Job, Outcome

GOLDEN = Path(__file__).parent / "golden"
"""`<Record>-<version>.json`: bytes as they stand on a topic, and what they decode to. Only added to."""

DECODE = {
    "Job": decode_job,
    "Outcome": decode_outcome,
    "DispatchRequested": decode_event,
    "Command": decode_command,
}


@pytest.mark.parametrize("record", CURRENT_FILES)
def test_the_current_schema_is_committed_and_reads_every_older_version(record: str) -> None:
    assert problems(record, current_text(record), versions(record)) == []


def holds(decoded: object, kept: object) -> bool:
    """Whether all that was kept is in what is decoded now; later versions may add to it."""
    if isinstance(kept, dict):
        return isinstance(decoded, dict) and all(holds(decoded.get(key), kept[key]) for key in kept)
    if isinstance(kept, list):
        return isinstance(decoded, list) and len(decoded) == len(kept) and all(map(holds, decoded, kept))
    return decoded == kept


@pytest.mark.parametrize("record", CURRENT_FILES)
def test_bytes_of_every_committed_version_are_still_read(record: str) -> None:
    for version in versions(record):
        golden = GOLDEN / f"{record}-{version.number}.json"
        assert golden.exists(), f"add {golden.name}: bytes of the new version (docs/schemas.md)"
        kept = json.loads(golden.read_text())
        decoded = json.loads(msgspec.json.encode(DECODE[record](bytes.fromhex(kept["hex"]))))
        assert holds(decoded, kept["decoded"]), golden.name


def test_the_job_inside_an_outcome_is_the_job_of_the_jobs_topic() -> None:
    fields = {field["name"]: field for field in json.loads(current_text("Outcome"))["fields"]}
    embedded = fields["job"]["type"][1]
    alone = json.loads(current_text("Job"))
    del alone["namespace"]
    assert embedded == alone, "copy the changed Job into schemas/outcome.avsc too"


@pytest.mark.parametrize("record_type", [Job, Outcome, EventRef, EventOutcome, Alert, Command])
def test_the_python_types_have_the_fields_of_the_schema(record_type: type[msgspec.Struct]) -> None:
    name = record_type.__name__
    found: dict[str, list[str]] = {}

    def walk(schema: object) -> None:
        if isinstance(schema, list):
            for branch in schema:
                walk(branch)
        elif isinstance(schema, dict):
            if schema["type"] == "record":
                found[schema["name"]] = [field["name"] for field in schema["fields"]]
                for field in schema["fields"]:
                    walk(field["type"])
            walk(schema.get("items"))

    walk(json.loads(current_text("Outcome")))
    walk(json.loads(current_text("Job")))
    walk(json.loads(current_text("Command")))
    assert list(record_type.__struct_fields__) == found[name]


def altered(record: str, **field: object) -> str:
    schema = json.loads(current_text(record))
    schema["fields"].append(field)
    return json.dumps(schema)


def test_a_changed_schema_without_a_version_says_which_file_to_add() -> None:
    changed = altered("Job", name="lane", type="string", default="")
    (problem,) = problems("Job", changed, versions("Job"))
    newest = versions("Job")[-1].number
    assert f"schemas/versions/Job/{newest + 1}.avsc" in problem


def test_a_field_with_a_default_may_be_added() -> None:
    changed = altered("Job", name="lane", type="string", default="")
    committed = [*versions("Job"), Version("Job", versions("Job")[-1].number + 1, changed)]
    assert problems("Job", changed, committed) == []


def test_a_field_without_a_default_is_refused_against_every_older_version() -> None:
    first = current_text("Job")
    second = altered("Job", name="lane", type="string", default="")
    third = altered("Job", name="lane", type="string")
    committed = [Version("Job", n, text) for n, text in enumerate((first, second, third), 1)]
    (problem,) = problems("Job", third, committed)
    assert "can't read version 1" in problem
    assert "lane" in problem


def test_a_missing_number_is_noticed() -> None:
    text = current_text("Job")
    (problem,) = problems("Job", text, [Version("Job", 1, text), Version("Job", 3, text)])
    assert "[1, 3]" in problem


def test_a_record_without_versions_is_noticed() -> None:
    (problem,) = problems("Job", current_text("Job"), [])
    assert "schemas/versions/Job/1.avsc" in problem


def test_a_retyped_field_deep_inside_is_refused() -> None:
    schema = json.loads(current_text("Outcome"))
    job = next(field for field in schema["fields"] if field["name"] == "job")["type"][1]
    next(field for field in job["fields"] if field["name"] == "payload")["type"] = "long"
    assert incompatibilities(reader=json.dumps(schema), writer=current_text("Outcome"))
