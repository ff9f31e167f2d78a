"""What goes over HTTP between us and the agent engine, as types; the JSON Schemas here are made of them.

Rules: spec/jobs.md, "Lanes"; docs/agent-engine.md tells it to whoever writes an engine.
`python -m schemas.http` writes the schemas anew; a test holds them to the types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

FOLDER: Final = Path(__file__).parent

Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
"""A UUID as we write it: lower case, with dashes."""


class TurnPayload(Struct, frozen=True, kw_only=True):
    """What a turn is about: the customer's newest message, and every event that the turn answers."""

    conversation_id: Id
    contact_id: Id
    channel_session_id: Id
    inbound_message_id: Annotated[Id, Meta(description="The newest message; read the history up to it.")]
    crm_event_id: Annotated[Id, Meta(description="The first event of the turn.")]
    event_ids: Annotated[
        list[Id],
        Meta(min_length=1, description="Every event that this turn answers, in the order they came."),
    ]
    event_replays: (
        Annotated[dict[str, int], Meta(description="Event id → replay number, of those that were replayed.")]
        | UnsetType
    ) = UNSET
    replay_of: (
        Annotated[Id, Meta(description="Of a turn that is made again: its first event.")] | UnsetType
    ) = UNSET


class TurnRequest(Struct, frozen=True, kw_only=True):
    """Body of the POST that asks the agent engine for one turn of a conversation."""

    job_id: Annotated[Id, Meta(description="The same for every attempt; also sent as Idempotency-Key.")]
    kind: Annotated[Literal["inbound_turn"], Meta(description="More kinds may come.")]
    attempt: Annotated[int, Meta(ge=1, description="Which attempt this is, from 1.")]
    payload: TurnPayload


class TurnAnswer(Struct, frozen=True, kw_only=True):
    """Optional JSON body of a 2xx answer; an empty body means done. At most 64 KiB are read."""

    decision: Annotated[
        Literal["done", "retry", "cancelled"] | None,
        Meta(description="done: answered. retry: not now. cancelled: not any more, without an alarm."),
    ] = None
    retry_after_ms: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="With retry: try again after so long, within 1 s and 1 h. Absent: by the backoff."),
    ] = None
    reason: Annotated[
        str | None,
        Meta(
            description="Why, in a word such as `conversation_closed`, or a short line; people read it. "
            "Nothing of what the customer wrote."
        ),
    ] = None
    result: Annotated[
        dict[str, Any] | None,
        Meta(description="With done: kept with the job, such as a provider's message id. At most 4 KiB."),
    ] = None


FILES: Final[dict[str, type[Struct]]] = {
    "inbound_turn.request.json": TurnRequest,
    "inbound_turn.answer.json": TurnAnswer,
}
"""Schema files and the types that they describe."""


def schema_text(described: type[Struct]) -> str:
    """The JSON Schema of a type, as its file holds it."""
    schema = msgspec.json.schema(described, ref_template="#/$defs/{name}")
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return msgspec.json.format(msgspec.json.encode(whole, order="deterministic"), indent=2).decode() + "\n"
