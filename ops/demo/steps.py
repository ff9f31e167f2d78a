"""What a scenario is made of: numbers, chats, and the things that happen at a time (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from ops.engine.scenario import Mode


@dataclass(frozen=True, slots=True)
class Line:
    """A WhatsApp number of an organization and the agent that answers it."""

    key: str
    organization_name: str
    name: str
    window_ms: int
    agent: Literal["published", "paused"] = "published"
    organization: Literal["active", "suspended"] = "active"


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation with somebody on a number."""

    key: str
    name: str
    role: str
    line: str = "reception"
    group: bool = False
    owner: str | None = None
    """`assignee_kind` of the conversation: `user` is a person of the clinic."""
    same_contact_as: str | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    at_s: float
    """Seconds from the start."""

    def scaled(self, scale: float) -> Self:
        """The step at its time in a minute of another length."""
        return replace(self, at_s=self.at_s * scale)


@dataclass(frozen=True, slots=True)
class Say(_Step):
    """A message comes in, with its event, as a CRM writes them."""

    chat: Chat
    text: str
    label: str = ""
    kind: Literal["text", "image", "audio"] = "text"


@dataclass(frozen=True, slots=True)
class Read(_Step):
    """The CRM has read the photo or transcribed the audio `of`."""

    chat: Chat
    of: str


@dataclass(frozen=True, slots=True)
class Repeat(_Step):
    """The record of the message `of` arrives once more, as after a crash of the publisher."""

    chat: Chat
    of: str


@dataclass(frozen=True, slots=True)
class BreakOff(_Step):
    """A message at the very moment when the window that `after` opened is decided.

    `at_s` is that of the window's first message; the player adds the window's length to its commit.
    """

    chat: Chat
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class OutOfContract(_Step):
    """An event whose payload lacks the four ids, from an integration."""

    chat: Chat
    text: str


@dataclass(frozen=True, slots=True)
class Noise(_Step):
    """Bytes that are no event, straight into the topic."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TakeOver(_Step):
    """A person of the clinic takes the conversation over."""

    chat: Chat


@dataclass(frozen=True, slots=True)
class Merge(_Step):
    """The CRM merges a contact into another one: its conversation moves, the contact goes."""

    chat: Chat
    into: Chat


@dataclass(frozen=True, slots=True)
class Treat(_Step):
    """From now on the agent engine treats the turns of a chat's contact so (see `ops.engine.scenario`)."""

    chat: Chat
    told: str
    """What is shown of it."""
    mode: Mode = "ok"
    times: int | None = None
    status: int = 503
    wait_s: float = 0.0
    """What the engine asks to wait (`Retry-After`), at least 1; 0: it says nothing."""
    takes_s: float | None = None
    """How long a turn takes; None: as everybody's."""
    reason: str | None = None

    def scaled(self, scale: float) -> Self:
        """Its times, too."""
        takes_s = None if self.takes_s is None else self.takes_s * scale
        return replace(self, at_s=self.at_s * scale, wait_s=self.wait_s * scale, takes_s=takes_s)


@dataclass(frozen=True, slots=True)
class Connect(_Step):
    """A WhatsApp number loses its connection, or has it again."""

    line: str
    works: bool
    told: str


@dataclass(frozen=True, slots=True)
class Order(_Step):
    """A person of the clinic orders something of the job whose window's first message is `of`."""

    chat: Chat
    action: Literal["hold", "release"]
    of: str
    told: str


Step = Say | Read | Repeat | BreakOff | OutOfContract | Noise | TakeOver | Merge | Treat | Connect | Order
