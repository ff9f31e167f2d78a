"""No personal data in the log, nor in what is told of an event, whatever its record holds and its end is."""

from __future__ import annotations

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from schemas.codec import encode_event
from schemas.dead import Header
from schemas.masking import masked
from schemas.topic_names import DEAD
from streams.decide import Decision, Fail
from streams.question import Question
from tests.unit.builders import event, row, row_bytes
from tests.unit.test_freeze_protocol import settle
from tests.unit.worlds import Record, Worker, World

NAME, PHONE, EMAIL, TEXT = "Ana Souza", "+5511987654321", "ana@example.com", "my test was positive"
SECRETS = (NAME, PHONE, PHONE[3:], EMAIL, TEXT)

_one = event()
_ids = {
    "conversation_id": _one.conversation_id,
    "contact_id": _one.contact_id,
    "channel_session_id": _one.session_id,
    "inbound_message_id": _one.message_id,
}
_said = {"name": NAME, "phone": PHONE, "email": EMAIL, "text": TEXT}

RECORDS: dict[str, tuple[bytes, bytes | None, list[Header]]] = {
    "an event with more in its payload": (
        _one.key, row_bytes(payload=json.dumps({**_ids, **_said}), metadata=json.dumps(_said)), [],
    ),
    "one whose ids are people": (
        _one.key, row_bytes(payload=json.dumps({**_ids, "contact_id": PHONE, **_said})), [],
    ),
    "a payload that is a text": (_one.key, row_bytes(payload=f"{NAME} {PHONE} says: {TEXT}"), []),
    "no JSON": (_one.key, f"{NAME} <{EMAIL}>: {TEXT}".encode(), []),
    "another type, named after a person": (_one.key, row_bytes(event_type=EMAIL), []),
    "a row whose id is a phone": (_one.key, json.dumps({**row(), "id": PHONE}).encode(), []),
    "a key that is a phone, twice": (PHONE.encode(), row_bytes(), [("rekeyed", b"1"), (NAME, TEXT.encode())]),
    "a key that is a phone": (PHONE.encode(), row_bytes(), [(NAME, TEXT.encode())]),
    "broken Avro": (_one.key, encode_event(row(metadata=json.dumps(_said)))[:-7], []),
    "of a newer version": (_one.key, b"\xc3\x01" + b"tomorrow" + TEXT.encode(), []),
}  # fmt: skip


@pytest.mark.parametrize("failing", [False, True], ids=["decided", "dying"])
@pytest.mark.parametrize("kind", RECORDS)
def test_the_log_and_the_outcomes_hold_no_personal_data(kind: str, failing: bool) -> None:
    key, value, headers = RECORDS[kind]
    world = World()
    if failing:
        error = f'invalid input: "{PHONE}" of {EMAIL}'

        def fail(question: Question) -> Decision:
            return Fail("sqlstate_22P02", masked(error))

        world.decide = fail
    world.log.append(Record(key, value, 0, world.now_ms, headers=headers))

    async def scenario() -> None:
        worker = Worker(world)
        await settle(world, worker)

    with capture_logs() as entries:
        asyncio.run(scenario())
    told = json.dumps(entries, default=repr)
    told += json.dumps([repr(outcome) for outcome in world.outcomes()])
    told += json.dumps([repr(dict(letter[3] or ()).get("kafka_dlt-exception-message")) for letter in
                        world.durable.get(DEAD, [])])  # fmt: skip
    assert not [secret for secret in SECRETS if secret in told]
    assert world.durable, "it went somewhere"
    quiet = not failing and kind in ("an event with more in its payload", "a key that is a phone")
    assert quiet or kind == "a key that is a phone" or entries, "it was logged"
