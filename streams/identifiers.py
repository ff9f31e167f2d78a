"""Identifiers: how a UUID must look, and the ids that we derive (pure).

Rules: spec/dispatch.md, step 2 (the contract of a payload), step 5 (job ids) and *Replays*;
behaviour b007 (version and variant digits are checked, the nil UUID is accepted).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid5

NIL: Final = "00000000-0000-0000-0000-000000000000"

JOB_NAMESPACE: Final = UUID("5d2f7e0a-9f4c-5b1e-8a37-0c6f1d3b9e42")
"""Namespace of every job id. Never change it: a job id must come out the same after any upgrade."""

_CHECKED = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
).fullmatch
_SHAPE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch


_SIX = re.compile(
    r"\|".join([r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"] * 6)
).fullmatch


def six_canonical(six: Sequence[object]) -> bool:
    """Whether six values are UUIDs in canonical form already: the usual case, told in one look."""
    try:
        return _SIX("|".join(six)) is not None  # type: ignore[arg-type]  # what is no text raises
    except TypeError:
        return False


def canonical_uuid(text: object) -> str | None:
    """The UUID in lower case if `text` is one of the shape that a payload must have, else None.

    The version digit is 1 to 8 and the variant is the RFC's (b007); the nil UUID passes. UUIDs are
    compared as UUIDs, so upper case is the same id (spec/dispatch.md, where we differ).
    """
    if not isinstance(text, str):
        return None
    if _CHECKED(text) or text == NIL:
        return text.lower()
    return None


def canonical_row_id(text: object) -> str | None:
    """The UUID in lower case if `text` has the form of one, whatever its version digit, else None.

    For ids that Postgres issued (`event_log.id`, `organization_id`): its type `uuid` holds any 128 bits,
    and seed rows such as `…-000000000001` are common; the stricter rule is for payloads alone.
    """
    if isinstance(text, str) and _SHAPE(text):
        return text.lower()
    return None


def job_id(organization_id: str, first_event_id: str, replay: int = 0) -> str:
    """The job of a window: UUIDv5 of the organization and the window's first event.

    `replay` is the run's number under `--again` and 0 everywhere else: an ordinary replay or a requeue
    must find the job that was there (spec/dispatch.md, step 5 and *Replays*). Ids are canonical.
    """
    name = f"{organization_id}:{first_event_id}"
    if replay:
        name = f"{name}:{replay}"
    return str(uuid5(JOB_NAMESPACE, name))


def again_source_event_id(event_id: str, replay: int) -> str:
    """`source_event_id` of a job made by `--again`: UUIDv5 of the replay number within the event.

    The event's own id is taken by its first job (unique per organization). Raises ValueError if
    `event_id` is not a UUID.
    """
    return str(uuid5(UUID(event_id), str(replay)))


def key_parts(key: bytes) -> tuple[str, str]:
    """Organization and contact of a key."""
    organization_id, _, contact_id = key.decode().partition(":")
    return organization_id, contact_id
