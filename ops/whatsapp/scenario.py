"""How the stand-in WhatsApp behaves: by phone, by template, or always (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from ops.errors import WrongScenario

Mode = Literal["ok", "error", "drop", "hang", "cut", "gateway"]

_NotNegative = Annotated[int, Meta(ge=0)]


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done with a message. `ok`, `drop` and `hang` take it, the others don't."""

    mode: Mode = "ok"
    """`ok`: taken; `error`: refused with `code`; `drop`: taken, but the connection breaks before the answer;
    `hang`: taken, but never answered; `cut`: the connection breaks and nothing was taken; `gateway`: a
    gateway's 502."""
    delay_ms: _NotNegative = 0
    """So long the answer takes."""
    times: _NotNegative | None = None
    """Only the first so many messages to each phone are treated so, further ones as `ok`; null: all."""
    code: int = 131000
    """Of `error`: the provider's own number."""
    status: Annotated[int, Meta(ge=400, le=599)] = 400
    """Of `error`: the HTTP status."""
    retry_after: str | None = None
    """Header `Retry-After` of `error`."""

    def treats(self, number: int) -> Scenario:
        """What becomes of the n-th message (from 1) to a phone."""
        if self.times is None or number <= self.times:
            return self
        return Scenario(delay_ms=self.delay_ms)


def scenario_from_json(body: bytes) -> Scenario:
    """The scenario that a JSON object describes. Raises WrongScenario."""
    try:
        return msgspec.json.decode(body, type=Scenario)
    except msgspec.DecodeError as error:
        raise WrongScenario(f"{error}; a scenario has {', '.join(Scenario.__struct_fields__)}") from error


def scenario_from_fields(fields: Mapping[str, str]) -> Scenario:
    """The scenario that texts describe, such as a command's options. Raises WrongScenario."""
    try:
        return msgspec.convert(dict(fields), Scenario, strict=False)
    except msgspec.ValidationError as error:
        raise WrongScenario(f"{error}; modes are {', '.join(get_args(Mode))}") from error
