"""Group links: a WhatsApp template to a student, with the link of the group (spec/group_link.md).

`running` is durable before `run` is called, and the provider knows no idempotency key. So an answer that did
not come is not tried again here: it is held as `unknown_outcome`, or, where the installation says so, tried
once more by the executor (GROUP_LINK_ON_UNKNOWN).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
import structlog

from schemas.dead import Header
from schemas.kinds import GROUP_LINK
from schemas.records import Job
from streams.handlers.answers import Answer, Dead, Done, Hold, Retry
from streams.handlers.whatsapp import Number, Template, WhatsApp
from streams.handlers.whatsapp_replies import UNKNOWN_OUTCOME, NotSent, Sent
from streams.retry import heeding_ms
from streams.whatsapp_numbers import NumberSealed, NumbersUnknown

log = structlog.get_logger(__name__)

KIND: Final = GROUP_LINK
NO_CREDENTIALS: Final = "no_credentials"
UNREADABLE_WAIT_MS: Final = 10_000
LOOK_UP_S: Final = 30.0
"""For the number, at the very most: a database that fell silent is noticed within that."""


class NumbersOf(Protocol):
    """Where the numbers of organizations are known (`streams.whatsapp_numbers.Numbers`)."""

    async def of(self, organization_id: str, *, fresh: bool = False) -> Number | None:
        """The number of an organization, `fresh`: as it is now; None: there is none.

        Raises NumbersUnknown, NumberSealed.
        """


class _Payload(msgspec.Struct):
    """What a job's payload says (`streams.group_links`)."""

    phone: str
    student_name: str
    group_link: str
    template_name: str
    template_language: str


class GroupLinkTemplate:
    """Sends the template of a group link with the organization's number.

    Args:
        whatsapp: what sends.
        numbers: whose number is used.
    """

    kind: str = KIND

    def __init__(self, whatsapp: WhatsApp, numbers: NumbersOf) -> None:
        self._whatsapp = whatsapp
        self._numbers = numbers
        self.timeout_s = 2 * whatsapp.timeout_s + LOOK_UP_S

    async def run(self, job: Job, attempt: int, headers: Sequence[Header]) -> Answer:
        """Send it; see `streams.handlers.answers.Handler`."""
        template = template_of(job.payload)
        if template is None:
            return Dead("bad_payload: it lacks a part of a group link's message")
        try:
            number = await self._numbers.of(job.organization_id)
        except NumbersUnknown as error:
            return Retry(f"credentials_unreadable: {error}", after_ms=UNREADABLE_WAIT_MS, spends=False)
        except NumberSealed as error:
            return Hold(f"{NO_CREDENTIALS}: {error}")
        except Exception as error:
            log.exception("handler_failed", kind=KIND, job_id=job.id, attempt=attempt)
            return Retry(f"internal_error: {type(error).__name__}")
        if number is None:
            return Hold(f"{NO_CREDENTIALS}: no WhatsApp number to send with")
        try:
            sent = await self._whatsapp.send(number, template, job.id)
            if isinstance(sent, NotSent) and sent.verdict == "hold":
                sent = await self._with_another(number, template, job) or sent
        except Exception as error:
            log.exception("handler_failed", kind=KIND, job_id=job.id, attempt=attempt)
            return Hold(f"{UNKNOWN_OUTCOME}: {type(error).__name__}")
        return answer_of(sent, attempt, waits=free_waits(job, attempt))

    async def _with_another(self, refused: Number, template: Template, job: Job) -> Sent | NotSent | None:
        """Send with the number that the organization has now, if it was given another one meanwhile."""
        try:
            number = await self._numbers.of(job.organization_id, fresh=True)
        except (NumbersUnknown, NumberSealed):
            return None
        if number is None or number == refused:
            return None
        return await self._whatsapp.send(number, template, job.id)


def template_of(payload: str) -> Template | None:
    """The message of a group link's payload; None: a part of it is missing."""
    try:
        found = msgspec.json.decode(payload, type=_Payload)
    except (msgspec.DecodeError, RecursionError):
        return None
    return template(
        found.phone, found.template_name, found.template_language, found.student_name, found.group_link
    )


def template(phone: str, name: str, language: str, student_name: str, group_link: str) -> Template | None:
    """The message, with the student's name as {{1}} and the link as {{2}}; None: a part of it is empty."""
    # a variable with a line break, a tab or several blanks together is refused by the provider
    variables = (" ".join(student_name.split()), " ".join(group_link.split()))
    if not (phone and name and language and all(variables)):
        return None
    return Template(phone, name, language, variables)


def free_waits(job: Job, attempt: int) -> int:
    """How often a job was put off without spending an attempt: a further record of it for each, besides those
    of its attempts."""
    return max(job.copy - (attempt - 1), 0)


def answer_of(sent: Sent | NotSent, attempt: int, *, waits: int) -> Answer:
    """The handler's answer to what the provider said; `waits` as `free_waits` tells."""
    if isinstance(sent, Sent):
        return Done({"provider_message_id": sent.provider_message_id}, facts=sent.facts)
    facts: Mapping[str, object] = sent.facts
    match sent.verdict:
        case "never":
            return Dead(sent.reason, facts=facts)
        case "hold" | "unknown":
            return Hold(sent.reason, facts=facts)
        case "soon":
            return Retry(sent.reason, after_ms=heeding_ms(KIND, attempt, sent.advice_ms), facts=facts)
        case "rate":
            assert sent.pace is not None, "who asks for less has a pace"
            wait_ms = max(sent.pace.wait_ms(waits), sent.advice_ms or 0)
            spends = waits >= sent.pace.free
            return Retry(sent.reason, after_ms=wait_ms, spends=spends, kind="rate", facts=facts)
