"""Which letters are meant, how they are counted, and letters as lines, byte for byte."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import UTC

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.dlq.groups import MOST_GROUPS, Groups, fields_of
from ops.dlq.lines import WrongLine, as_line, of_line
from ops.dlq.selection import Filter, WrongSelection, header_of, places_of
from ops.numbers import several
from schemas.codec import encode_job
from schemas.dead import Cause, Header
from schemas.topic_names import DEAD, JOBS, PARKING
from streams.letters import Letter, Place
from tests.unit.builders import row_bytes, uid
from tests.unit.test_letters import JOB, letter

EVENT = letter(
    row_bytes("e1"),
    ("traceparent", b"00-abc"),
    cause=Cause("decide", "contact_missing", "x", event_id=uid("e1"), attempt=5),
)
JOB_LETTER = letter(encode_job(JOB), origin=JOBS, cause=Cause("execute", "http_500", "x", job_id=uid("job")))
NOISE = letter(b"\xff", key=None)


@pytest.mark.parametrize(
    ("chosen", "taken"),
    [
        (Filter(), [EVENT, JOB_LETTER, NOISE]),
        (Filter(reasons=("contact_missing", "nothing")), [EVENT]),
        (Filter(reasons=("http_*",)), [JOB_LETTER]),
        (Filter(kinds=("ai_agent.*",)), [EVENT]),
        (Filter(kinds=("unreadable", "inbound_turn")), [JOB_LETTER, NOISE]),
        (Filter(stages=("collect",)), [NOISE]),
        (Filter(organizations=(uid("clinic"),)), [EVENT, JOB_LETTER]),
        (Filter(ids=(uid("e1"), uid("job"))), [EVENT, JOB_LETTER]),
        (Filter(headers=(("traceparent", "00-*"),)), [EVENT]),
        (Filter(headers=(("traceparent", "00-*"), ("stage", "sink"))), []),
        (Filter(since_ms=EVENT.at_ms), [EVENT, JOB_LETTER, NOISE]),
        (Filter(until_ms=EVENT.at_ms), []),
        (Filter(places=((3, 17),)), [EVENT, JOB_LETTER, NOISE]),
        (Filter(places=((3, 18),)), []),
        (Filter(reasons=("contact_missing",), stages=("execute",)), []),
    ],
)
def test_every_part_of_a_selection_narrows_it_down(chosen: Filter, taken: list[Letter]) -> None:
    assert [one for one in (EVENT, JOB_LETTER, NOISE) if chosen.takes(one)] == taken
    assert chosen.is_everything == (chosen == Filter())
    assert chosen.words()


def test_a_selection_survives_being_stored() -> None:
    chosen = Filter(PARKING, ((1, 2),), ("a*",), headers=(("x", "y"),), since_ms=5, closed=True)
    assert msgspec.json.decode(msgspec.json.encode(chosen), type=Filter) == chosen


def test_places_and_headers_are_read_as_people_type_them() -> None:
    assert places_of(["dead/3/17", "dead/3/17", "dead/0/1"]) == (DEAD, ((3, 17), (0, 1)))
    assert places_of(["parking/3/17"]) == (PARKING, ((3, 17),))
    assert places_of([]) == (DEAD, ())
    assert header_of("reason=a=b") == ("reason", "a=b")
    for wrong in (["17"], ["dead/1/2", "parking/1/2"]):
        with pytest.raises(WrongSelection):
            places_of(wrong)
    for wrong_header in ("reason", "=x"):
        with pytest.raises(WrongSelection):
            header_of(wrong_header)


def test_groups_are_counted_in_one_pass() -> None:
    groups = Groups(by=("reason", "organization", "day"), zone=UTC)
    for n in range(3):
        groups.add(replace(EVENT, at_ms=EVENT.at_ms + n, place=Place(DEAD, 3, n)), closed=n == 0)
    groups.add(NOISE)
    first, second = groups.sorted()
    assert first.values == ("contact_missing", uid("clinic"), "2026-09-21")
    assert (first.letters, first.closed, first.example) == (3, 1, "dead/3/2")
    assert (first.oldest_ms, first.newest_ms) == (EVENT.at_ms, EVENT.at_ms + 2)
    assert second.values[:2] == ("not_json", "unknown") and groups.letters == 4


@pytest.mark.thorough
def test_reasons_without_end_do_not_fill_the_memory() -> None:
    groups = Groups(by=("reason",))
    for n in range(MOST_GROUPS + 50):
        groups.add(Letter(Place(DEAD, 0, n), n, None, b"\xff", [("reason", b"r%d" % n)]))
    assert len(groups.groups) == MOST_GROUPS + 1 and groups.letters == MOST_GROUPS + 50


def test_what_to_count_by_is_named_by_its_fields() -> None:
    assert fields_of(["kind, reason", "day"]) == ("reason", "kind", "day")
    assert fields_of([]) == ("reason", "kind")
    with pytest.raises(ValueError, match="'colour' is none of reason"):
        fields_of(["colour"])


values = st.one_of(st.none(), st.binary(), st.text().map(str.encode))


@pytest.mark.thorough
@given(
    values,
    values,
    st.lists(st.tuples(st.text(), values)),
    st.integers(0, 2**53 - 1),
    st.sampled_from([DEAD, PARKING]),
)
def test_a_letter_as_a_line_comes_back_byte_for_byte(
    key: bytes | None, value: bytes | None, headers: list[Header], at_ms: int, topic: str
) -> None:
    one = Letter(Place(topic, 3, 17), at_ms, key, value, headers)
    line = as_line(one)
    assert b"\n" not in line
    back = of_line(line)
    assert (back.topic, back.at_ms, back.key, back.value) == (topic, at_ms, key, value)
    assert list(back.headers) == headers
    assert of_line(as_line(one)).digest == back.digest


def test_lines_are_text_where_the_bytes_are() -> None:
    told = json.loads(as_line(EVENT))
    assert told["value"] == row_bytes("e1").decode()
    assert (told["place"], told["reason"], told["about"]) == ("dead/3/17", "contact_missing", uid("e1"))
    assert json.loads(as_line(NOISE))["value_base64"] == "/w=="
    edited = {"key": "k", "value": "mended by hand"}
    assert of_line(json.dumps(edited).encode()).value == b"mended by hand"


def test_different_letters_have_different_digests() -> None:
    lines = [
        {"key": "ab", "value": "c"},
        {"key": "a", "value": "bc"},
        {"key": None, "value": "c"},
        {"key": "", "value": "c"},
        {"key": "ab", "value": "c", "timestamp": 1},
        {"key": "ab", "value": "c", "headers": [{"name": "x", "value": None}]},
        {"key": "ab", "value": "c", "headers": [{"name": "x", "value": ""}]},
    ]
    assert len({of_line(json.dumps(one).encode()).digest for one in lines}) == len(lines)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"", "is not a JSON object"),
        (b"[]", "is not a JSON object"),
        (b"\xff", "is not a JSON object"),
        (b'{"value": "v"}', "key is missing"),
        (b'{"key": "k", "value": 5}', "value is no text"),
        (b'{"key": "k", "value": "v", "value_base64": ""}', "value is there twice"),
        (b'{"key": "k", "value_base64": "*"}', "value is no base64"),
        (b'{"key": "\\ud800", "value": "v"}', "is not a JSON object"),
        (b'{"key": "k", "value": "v", "headers": {}}', "headers is no list"),
        (b'{"key": "k", "value": "v", "headers": [{"value": "x"}]}', "a header has no name"),
        (b'{"key": "k", "value": "v", "headers": [{"name": "x"}]}', "header x: value is missing"),
        (b'{"key": "k", "value": "v", "timestamp": "now"}', "timestamp is no number"),
        (b'{"key": "k", "value": "v", "timestamp": -1}', "timestamp is no number"),
    ],
)
def test_a_wrong_line_says_which_part_is_wrong(line: bytes, told: str) -> None:
    with pytest.raises(WrongLine, match=told):
        of_line(line)


@given(st.binary())
def test_no_line_whatever_raises_anything_else(line: bytes) -> None:
    with contextlib.suppress(WrongLine):
        of_line(line)


def test_one_is_one() -> None:
    assert [several(n, "letter") for n in (0, 1, 2_000)] == ["0 letters", "1 letter", "2,000 letters"]
    assert several(2, "is", "are") == "2 are"
