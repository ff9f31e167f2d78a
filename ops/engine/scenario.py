"""How the stand-in engine behaves: by job, by contact, by the request's URL, or always (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from ops.errors import WrongScenario

Mode = Literal[
    "ok",
    "fail",
    "rate",
    "hang",
    "credit",
    "conflict",
    "retry",
    "cancel",
    "garbage",
    "flood",
    "redirect",
    "drop",
]

_NotNegative = Annotated[int, Meta(ge=0)]
_CHOICE: Final = f"modes are {', '.join(get_args(Mode))}"


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done with a request. Modes other than `ok` and `drop` have no effect on anybody."""

    mode: Mode = "ok"
    """`ok`: 200, done; `fail`: `status`; `rate`: 429; `hang`: no answer ever; `credit`: 402; `conflict`: 409;
    `retry`, `cancel`: 200 with that decision; `garbage`: 200 with a decision that there is none of; `flood`:
    200 with `size_bytes` of body; `redirect`: 307 to `location`; `drop`: does the work, but the connection
    breaks before the answer."""
    delay_ms: _NotNegative = 0
    """So long the work takes."""
    times: _NotNegative | None = None
    """Only the first so many requests of each job are treated so, further ones as `ok`; null: all."""
    status: Annotated[int, Meta(ge=200, le=999)] = 503
    """Of `fail`."""
    retry_after: str | None = None
    """Header `Retry-After` of `fail`, `rate` and `credit`."""
    retry_after_ms: _NotNegative | None = None
    """In the decision of `retry`."""
    reason: str | None = None
    """Said with a decision or an error."""
    location: str = "http://elsewhere.invalid/"
    """Of `redirect`; a path stays on this server."""
    size_bytes: _NotNegative = 10_000_000_000
    """Of `flood`."""

    def treats(self, request_number: int) -> Scenario:
        """What becomes of the n-th request (from 1) of a job."""
        if self.times is None or request_number <= self.times:
            return self
        return Scenario(delay_ms=self.delay_ms)


def scenario_from_query(query: Mapping[str, str]) -> Scenario | None:
    """The scenario that a request's URL asks for (`?mode=fail&times=2`), None without one.

    Raises:
        WrongScenario: a field or value that there is none of.
    """
    return _converted(dict(query)) if query else None


def scenario_from_json(body: bytes) -> Scenario:
    """The scenario in a JSON object; raises WrongScenario."""
    try:
        return msgspec.json.decode(body, type=Scenario)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongScenario(f"{error}; {_CHOICE}") from None


def _converted(fields: dict[str, str]) -> Scenario:
    try:
        return msgspec.convert(fields, Scenario, strict=False)
    except msgspec.ValidationError as error:
        raise WrongScenario(f"{error}; {_CHOICE}") from None
