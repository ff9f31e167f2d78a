"""The shape of a message as the stand-in takes it, and what it remembers of one."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

_Text = Annotated[str, Meta(min_length=1, max_length=1024)]
_UNFIT: Final = re.compile(r"[\n\t]| {5,}")


class _Shape(Struct, frozen=True, forbid_unknown_fields=True):
    """What has a field that isn't known is refused, as the provider does."""


class Parameter(_Shape, frozen=True):
    """A variable of a template's body."""

    type: Literal["text"]
    text: _Text


class Component(_Shape, frozen=True):
    """A part of a template."""

    type: Literal["body"]
    parameters: Annotated[list[Parameter], Meta(min_length=2, max_length=2)]


class Language(_Shape, frozen=True):
    """A template's language."""

    code: Annotated[str, Meta(pattern=r"^[a-z]{2,3}(_[A-Z]{2})?$")]


class TemplateOf(_Shape, frozen=True):
    """Which template with which variables."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,512}$")]
    language: Language
    components: Annotated[list[Component], Meta(min_length=1, max_length=1)]


class Message(_Shape, frozen=True):
    """A request's body."""

    messaging_product: Literal["whatsapp"]
    recipient_type: Literal["individual"]
    to: Annotated[str, Meta(pattern=r"^\+[1-9][0-9]{6,14}$")]
    type: Literal["template"]
    template: TemplateOf
    biz_opaque_callback_data: Annotated[str, Meta(max_length=512)] = ""


class Got(Struct, kw_only=True):
    """A message that came."""

    n: int
    """Which one of all, from 1."""
    of_phone: int
    """Which one to its phone, from 1."""
    at_ms: int
    phone: str
    template: str
    opaque: str
    """The job's id, or what else the sender gave."""
    phone_number_id: str
    mode: str = ""
    taken: bool = False
    """It would have reached the phone."""
    status: int | None = None
    """What was answered; null: nothing."""


class Messages:
    """Messages in the order they came."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.taken: Counter[str] = Counter()
        """Phone → how many messages were taken for it."""
        self._of_phone: Counter[str] = Counter()

    def come(self, message: Message, phone_number_id: str) -> Got:
        """Write a message down."""
        self._of_phone[message.to] += 1
        got = Got(
            n=len(self.got) + 1,
            of_phone=self._of_phone[message.to],
            at_ms=time.time_ns() // 1_000_000,
            phone=message.to,
            template=message.template.name,
            opaque=message.biz_opaque_callback_data,
            phone_number_id=phone_number_id,
        )
        self.got.append(got)
        return got

    def take(self, got: Got) -> None:
        """It reaches its phone."""
        got.taken = True
        self.taken[got.phone] += 1

    def clear(self) -> None:
        """Forget everything."""
        self.got.clear()
        self.taken.clear()
        self._of_phone.clear()


def read_message(body: bytes) -> Message:
    """The message of a request's body. Raises ValueError, which says what is wrong."""
    try:
        message = msgspec.json.decode(body, type=Message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    for parameter in message.template.components[0].parameters:
        if _UNFIT.search(parameter.text):
            raise ValueError("a variable has a line break, a tab or more than four blanks together")
    return message
