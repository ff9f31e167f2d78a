"""The fingerprint in every record is the one that other Avro implementations compute."""

import json

import pytest

from schemas.history import CURRENT_FILES, current_text, fingerprint, versions

# From the test data that Avro's own implementations share: schema, signed 64-bit CRC-64-AVRO.
PUBLISHED = [
    ('"null"', 7195948357588979594),
    ('"boolean"', -6970731678124411036),
    ('"int"', 8247732601305521295),
    ('{"type": "long"}', -3434872931120570953),
    ('"float"', 5583340709985441680),
    ('"double"', -8181574048448539266),
    ('"bytes"', 5746618253357095269),
    ('"string"', -8142146995180207161),
    ('[ "int" , {"type":"boolean"} ]', 5392556393470105090),
    ('{"fields":[], "type":"record", "name":"foo", "doc":"Useful info"}', -4824392279771201922),
    ('{"fields":[], "type":"record", "name":"foo", "namespace":"x.y"}', 5916914534497305771),
    ('{"type":"enum", "name":"foo", "symbols":["A1"]}', -6342190197741309591),
    ('{"type":"array", "items":"null"}', -589620603366471059),
]

EMPTY = 0xC15D213AA4D7A795


def crc_64_avro(data: bytes) -> int:
    """Bit by bit from the specification's polynomial, without a table."""
    crc = EMPTY
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (EMPTY if crc & 1 else 0)
    return crc


def canonical(schema: object, namespace: str = "") -> object:
    """The Parsing Canonical Form of a parsed schema, by the specification's rules, for what we use."""
    if isinstance(schema, str):
        known = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
        return schema if schema in known or "." in schema or not namespace else f"{namespace}.{schema}"
    if isinstance(schema, list):
        return [canonical(branch, namespace) for branch in schema]
    assert isinstance(schema, dict)
    kind = schema["type"]
    if kind == "array":
        return {"type": "array", "items": canonical(schema["items"], namespace)}
    if kind == "enum":
        return {"name": schema["name"], "type": "enum", "symbols": schema["symbols"]}
    if kind != "record":
        return canonical(kind, namespace)
    namespace = schema.get("namespace", namespace)
    return {
        "name": f"{namespace}.{schema['name']}" if namespace else schema["name"],
        "type": "record",
        "fields": [
            {"name": field["name"], "type": canonical(field["type"], namespace)} for field in schema["fields"]
        ],
    }


def independent(text: str) -> bytes:
    form = json.dumps(canonical(json.loads(text)), separators=(",", ":"), ensure_ascii=False)
    return crc_64_avro(form.encode()).to_bytes(8, "little")


@pytest.mark.parametrize(("text", "published"), PUBLISHED)
def test_published_vectors_hold(text: str, published: int) -> None:
    expected = published.to_bytes(8, "little", signed=True)
    assert fingerprint(text) == expected
    assert independent(text) == expected


@pytest.mark.parametrize("record", CURRENT_FILES)
def test_our_schemas_have_the_fingerprint_of_an_independent_computation(record: str) -> None:
    assert fingerprint(current_text(record)) == independent(current_text(record))
    for version in versions(record):
        assert version.fingerprint == independent(version.text)


def test_no_two_records_share_a_fingerprint() -> None:
    by_record = [{version.fingerprint for version in versions(record)} for record in CURRENT_FILES]
    assert len(set.union(*by_record)) == sum(map(len, by_record))
