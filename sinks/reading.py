"""From a record of the outcomes topic to the outcome, or to where its bytes go instead (pure)."""

from __future__ import annotations

from typing import Final

from schemas.codec import decode_outcome
from schemas.delayed import tried_again
from schemas.errors import BadAvro, NotAvro, Undecodable, UnknownSchema
from schemas.records import Outcome
from schemas.topic_names import OUTCOMES
from sinks.batch import Record
from sinks.letters import Dead, Later

REASONS: Final[dict[type[Undecodable], str]] = {
    NotAvro: "not_avro",
    UnknownSchema: "unknown_schema",
    BadAvro: "bad_avro",
}
"""Why an outcome can't be read, by the error."""


def read(record: Record, now_ms: int) -> Outcome | Dead | Later:
    """What a record says; a newer version's waits for an hour for a sink that knows it (docs/schemas.md)."""
    try:
        return decode_outcome(record.value or b"")
    except Undecodable as undecodable:
        if isinstance(undecodable, UnknownSchema):
            later = tried_again(record, OUTCOMES, now_ms)
            if later is not None:
                return Later(record, later[1])
        return Dead(record, REASONS[type(undecodable)], str(undecodable))
