"""What the player did and what the watchers saw, as they tell it to the board. Times: seconds, monotonic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ops.demo.steps import Chat

FateState = Literal[
    "waiting",
    "running",
    "delayed",
    "held",
    "answered",
    "merged",
    "covered",
    "vetoed",
    "cancelled",
    "dead",
]
"""Where a job stands."""


@dataclass(frozen=True, slots=True)
class Wrote:
    """A message and its event are committed; `window_ms` is its number's window."""

    at: float
    chat: Chat
    text: str
    event_id: str
    window_ms: int
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class MediaRead:
    """The CRM has read a photo or audio of a chat."""

    at: float
    chat: Chat
    event_id: str


@dataclass(frozen=True, slots=True)
class Resent:
    """The record of an event was sent once more."""

    at: float
    chat: Chat
    event_id: str


@dataclass(frozen=True, slots=True)
class SentNoise:
    """Bytes that are no event were sent; where they lie names them."""

    at: float
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Noted:
    """Something else happened: a take-over, a merge, the engine in trouble."""

    at: float
    chat: Chat | None
    what: str


@dataclass(frozen=True, slots=True)
class Decided:
    """An outcome came: `outcome` is `job`, a stop's reason, an error's name; None while it is retried."""

    at: float
    event_ids: tuple[str, ...]
    status: str
    outcome: str | None
    job_id: str | None
    attempts: int
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class RowSeen:
    """A job's row was seen in Postgres."""

    at: float
    job_id: str
    event_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A job has come to a state; `order` is (replay, seq)."""

    at: float
    job_id: str
    order: tuple[int, int]
    state: FateState
    attempts: int = 0
    why: str = ""
    again_at: float | None = None
    into: str | None = None


@dataclass(frozen=True, slots=True)
class JobBuried:
    """A job's dead letter came."""

    at: float
    reason: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Buried:
    """A dead letter came; `origin` is partition and offset of the original record."""

    at: float
    reason: str
    origin: tuple[int, int]
    event_id: str | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The player has written all."""

    at: float


@dataclass(frozen=True, slots=True)
class Broke:
    """A thread of the demo failed: nothing more comes from it."""

    error: Exception


Happening = (
    Wrote
    | MediaRead
    | Resent
    | SentNoise
    | Noted
    | Decided
    | RowSeen
    | Moved
    | Buried
    | JobBuried
    | Finished
    | Broke
)
