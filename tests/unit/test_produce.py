"""Lines that ask for events: what is accepted, what is told, and where a run can be gone on with."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from ops.event_lines import LARGEST_BYTES, EventLine, LineError, read_line
from ops.event_record import record_of
from ops.event_targets import TargetFailed
from ops.produce import Batch, Pace, batches, produce
from streams.events import Event, read_event

ORGANIZATION = "11111111-1111-4111-8111-111111111111"
IDS = {
    "conversation_id": "22222222-2222-4222-8222-222222222222",
    "contact_id": "33333333-3333-4333-8333-333333333333",
    "channel_session_id": "44444444-4444-4444-8444-444444444444",
    "inbound_message_id": "55555555-5555-4555-8555-555555555555",
}


def line(**changes: object) -> bytes:
    """A line that is right but for the changes; a field set to None is left out."""
    fields = {"organization_id": ORGANIZATION, "payload": IDS, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def told(text: bytes, **options: bool) -> list[str]:
    """What is said about a line."""
    read = read_line(3, text, **options)
    assert not isinstance(read, EventLine), "the line was accepted"
    return [str(error) for error in read]


def accepted(text: bytes, **options: bool) -> EventLine:
    """The row of a line."""
    read = read_line(3, text, **options)
    assert isinstance(read, EventLine), read
    return read


class InMemory:
    """A target that keeps rows, refuses chosen lines, and fails at a chosen one."""

    name = "memory"

    def __init__(self, *, refuses: Sequence[int] = (), fails_at: int | None = None) -> None:
        self.rows: list[EventLine] = []
        self.refuses = refuses
        self.fails_at = fails_at
        self.written = self.already = 0
        self.ended = ""

    def write(self, rows: Sequence[EventLine]) -> list[LineError]:
        if any(row.line == self.fails_at for row in rows):
            raise TargetFailed("away")
        self.rows += [row for row in rows if row.line not in self.refuses]
        self.written = len(self.rows)
        return [LineError(row.line, "", "refused") for row in rows if row.line in self.refuses]

    def undurable(self) -> int | None:
        return None

    def finish(self) -> None:
        self.ended = "finished"

    def abort(self) -> None:
        self.ended = "aborted"


def numbered(*texts: bytes) -> list[Batch]:
    return [[(number, text)] for number, text in enumerate(texts, 1)]


def test_a_line_without_id_gets_one_and_defaults_the_type() -> None:
    row = accepted(line())
    assert row.generated and UUID(row.id)
    assert row.event_type == "ai_agent.dispatch_requested"
    assert json.loads(row.payload) == IDS
    assert (row.metadata, row.entity_kind, row.entity_id) == ("{}", None, None)


def test_a_given_id_is_kept_in_lower_case() -> None:
    row = accepted(line(id="ABCDEF00-0000-0000-0000-000000000001"))
    assert (row.id, row.generated) == ("abcdef00-0000-0000-0000-000000000001", False)


def test_numbers_of_a_payload_stay_as_they_were_written() -> None:
    payload = json.dumps(IDS)[:-1] + ', "amount": 12345678901234567890123.10}'
    row = accepted(b'{"organization_id":"%s","payload":%s}' % (ORGANIZATION.encode(), payload.encode()))
    assert row.payload == payload


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (b"[1]", ["line 3: must be a JSON object"]),
        (b'{"a":', ["line 3: is not JSON (Input data was truncated)"]),
        (
            line(organization_id="clinic"),
            ["line 3, organization_id: is a text of 6 characters, must be a UUID"],
        ),
        (line(organization_id=None), ["line 3, organization_id: is missing, must be a UUID"]),
        (line(payload="{}"), ["line 3, payload: is a text of 2 characters, must be a JSON object"]),
        (line(metadata=[]), ["line 3, metadata: is a list, must be a JSON object"]),
        (
            line(organisation_id=ORGANIZATION),
            ["line 3, organisation_id: is no field of an event; did you mean organization_id?"],
        ),
        (
            line(event_type="message.created"),
            [
                "line 3, event_type: is a text of 15 characters, must be one of ai_agent.dispatch_requested, "
                "group_link.dispatch_requested"
            ],
        ),
        (
            line(payload={**IDS, "contact_id": 5, "conversation_id": ""}),
            [
                "line 3, payload.conversation_id: is an empty text, must be a UUID",
                "line 3, payload.contact_id: is a number, must be a UUID",
            ],
        ),
        (
            line(event_type="group_link.dispatch_requested", payload={"phone": "11 91234-5678"}),
            ["line 3, payload.phone: is a text of 13 characters, must be a phone number as +5511…"],
        ),
        (
            line(payload={**IDS, "note": "a\0b"}),
            [r"line 3: holds \u0000, which Postgres' jsonb can't store"],
        ),
    ],
)
def test_what_is_wrong_is_told_by_line_and_field(text: bytes, errors: list[str]) -> None:
    assert told(text) == errors


@pytest.mark.parametrize(
    "text",
    [b"\xff\xfe", b'{"payload":{"a":"\xff"}}', b'{"payload":' + b"[" * 100_000, b'{"payload":NaN}', b""],
)
def test_no_bytes_whatever_raise(text: bytes) -> None:
    assert told(text)[0].startswith("line 3")


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert accepted(line(payload={**IDS, "note": "\\u0000"}))


def test_a_value_is_never_shown_in_an_error() -> None:
    assert "1234" not in " ".join(told(line(payload={**IDS, "contact_id": "+5511912341234"})))


def test_a_line_larger_than_a_record_is_refused() -> None:
    assert "bytes, at most" in told(b" " * (LARGEST_BYTES + 1))[0]


def test_a_payload_outside_the_contract_passes_when_asked_for() -> None:
    assert accepted(line(payload={}), any_payload=True).payload == "{}"


def test_the_record_reads_as_the_event_that_the_line_asked_for() -> None:
    row = accepted(line(id="66666666-6666-4666-8666-666666666666"))
    key, value, headers = record_of(row, 1_700_000_000_000)
    assert key == f"{ORGANIZATION}:{IDS['contact_id']}".encode()
    assert ("event_id", row.id.encode()) in headers
    event = read_event(value, (), 1_700_000_000_000, 1_700_000_000_500, 7)
    assert isinstance(event, Event)
    assert (event.event_id, event.key, event.message_id) == (row.id, key, IDS["inbound_message_id"])
    assert event.time_ms == 1_700_000_000_000


def test_lines_come_in_batches_without_empty_ones_and_a_mark_at_the_start() -> None:
    source = io.BytesIO(b"\xef\xbb\xbfa\n\n b \r\nc")
    assert list(batches(source, size=2)) == [[(1, b"a"), (3, b"b")], [(4, b"c")]]
    source.seek(0)
    assert list(batches(source, size=2, from_line=4)) == [[(4, b"c")]]


def test_a_line_without_end_is_read_only_as_far_as_shows_that() -> None:
    source = io.BytesIO(b"x" * (3 * LARGEST_BYTES) + b"\nnext\n")
    ((long, following),) = list(batches(source, size=2))
    assert long[0] == 1 and LARGEST_BYTES < len(long[1]) <= LARGEST_BYTES + 2
    assert following == (2, b"next")


def test_a_pipe_hands_on_what_it_has_when_nothing_more_comes(tmp_path: Path) -> None:
    import os

    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as writer:
        writer.write(b"a\nb\n")
        lines = batches(source, size=500, pipe=True)
        assert next(lines) == [(1, b"a"), (2, b"b")]
        writer.write(b"c\n")
        assert next(lines) == [(3, b"c")]
        writer.close()
        assert list(lines) == []


def test_one_wrong_line_means_nothing_when_atomic() -> None:
    target = InMemory()
    produced = produce(numbered(line(), b"{", line()), target, atomic=True)
    assert target.ended == "aborted" and [row.line for row in target.rows] == [1]
    assert (produced.lines, produced.refused, produced.exit_code) == (3, 1, 9)
    assert produced.generated == {}, "an id that was not written is not told"


def test_the_good_lines_are_written_when_not_atomic() -> None:
    target = InMemory(refuses=[4])
    produced = produce(numbered(line(), b"{", line(), line()), target, atomic=False)
    assert target.ended == "finished" and [row.line for row in target.rows] == [1, 3]
    assert produced.generated == {row.line: row.id for row in target.rows}
    assert [error.line for error in produced.errors] == [2, 4]
    assert (produced.refused, produced.exit_code) == (2, 9)


def test_an_early_end_tells_where_to_go_on() -> None:
    target = InMemory(fails_at=3)
    produced = produce(numbered(line(), line(), line()), target, atomic=False)
    assert (produced.stopped, produced.go_on_at, produced.exit_code) == ("away", 3, 7)
    assert set(produced.generated) == {1, 2}


def test_an_early_end_leaves_nothing_when_atomic() -> None:
    produced = produce(numbered(line(), line()), InMemory(fails_at=2), atomic=True)
    assert produced.go_on_at is None and produced.generated == {}


def test_ctrl_c_ends_early() -> None:
    def lines():  # type: ignore[no-untyped-def]
        yield [(1, line(id=str(uuid4())))]
        raise KeyboardInterrupt

    produced = produce(lines(), InMemory(), atomic=False)
    assert (produced.go_on_at, produced.exit_code, produced.generated) == (2, 130, {})


def test_a_rate_is_kept_by_sleeping() -> None:
    slept: list[float] = []
    pace = Pace(100.0, sleep=slept.append)
    assert pace.batch_size == 10
    for _ in range(3):
        pace.wait(10)
    assert sum(slept) == pytest.approx(0.1 + 0.2, abs=0.02), "nobody slept, so each wait is from the start"


def test_the_number_of_lines_is_told_at_the_end() -> None:
    told: list[int] = []
    assert list(batches(io.BytesIO(b"a\n\nb\n"), size=9, from_line=7, at_end=told.append)) == []
    assert told == [3]
