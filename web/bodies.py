"""What is asked for and answered, typed: the contract of the API (spec/group_link.md)."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from db.group_links import DEFAULT_ATTEMPTS, LONGEST_DELAY_MS, MOST_ATTEMPTS, GroupLinkRequest

_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"
"""Postgres holds no NUL, and the provider refuses line breaks in a template's variables."""


def _whole(value: object) -> int:
    """A number as a whole one, cut off; ValueError for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("must be a number")
    return int(value)


def _bounded_delay(value: int) -> int:
    if value > LONGEST_DELAY_MS:
        raise ValueError(f"must not be above {LONGEST_DELAY_MS} (366 days)")
    return value


def _text(longest: int, pattern: str = _PRINTABLE) -> Any:
    return StringConstraints(
        strict=True, strip_whitespace=True, min_length=1, max_length=longest, pattern=pattern
    )


Name = Annotated[str, _text(200)]
Phone = Annotated[str, _text(16, r"^\+[1-9][0-9]{6,14}$")]
Link = Annotated[str, _text(1_000, r"^https?://[!-~]+$")]
TemplateName = Annotated[str, _text(512, r"^[a-z0-9_]+$")]
TemplateLanguage = Annotated[str, _text(16, r"^[a-z]{2,3}(_[A-Z]{2})?$")]
DelayMs = Annotated[
    int,
    BeforeValidator(_whole),
    AfterValidator(_bounded_delay),
    WithJsonSchema({"type": "number", "maximum": LONGEST_DELAY_MS}),
]
MaxAttempts = Annotated[int, BeforeValidator(_whole), WithJsonSchema({"type": "number"})]

_MESSAGE: Final[dict[str, JsonValue]] = {
    "flow": "personal",
    "organizationId": "7c1d2c0e-3f5b-4a56-9a1f-0d6a2b1c9e55",
    "enrolmentId": "enr-2041",
    "studentName": "Ana Souza",
    "phone": "+5511988887777",
    "groupLink": "https://chat.whatsapp.com/Kd8aQ1",
    "templateName": "welcome_group",
    "templateLanguage": "pt_BR",
}


class _Body(BaseModel):
    """Names are camelCase outside; a field that isn't known is out of contract, since it was meant as one."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


class _MessageBody(_Body):
    """What is sent to whom."""

    flow: Literal["personal", "business"] = Field(description="In which flow the student enrolled.")
    organization_id: UUID = Field(description="That of the token.")
    enrolment_id: Name
    student_name: Name = Field(description="{{1}} of the template's body.")
    phone: Phone = Field(description="E.164.")
    group_link: Link = Field(description="{{2}} of the template's body.")
    template_name: TemplateName
    template_language: TemplateLanguage


class ReminderBody(_MessageBody):
    """A template to be sent at once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**_MESSAGE, "settleJob": False}]})

    settle_job: Annotated[bool, Strict()] = Field(
        default=False,
        description="True: once it is sent, the enrolment's job counts as sent with this message. It is not "
        "sent any more, and its row gets the message's id.",
    )


class GroupLinkBody(_MessageBody):
    """A template to be sent when it is time, surely."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**_MESSAGE, "delayMs": 600_000, "maxAttempts": 5}]}
    )

    delay_ms: DelayMs = Field(default=0, description="Not sent before so many ms; below 0 counts as 0.")
    max_attempts: MaxAttempts = Field(
        default=DEFAULT_ATTEMPTS,
        description=f"Attempts at most; below 1 counts as 1, above {MOST_ATTEMPTS} as that.",
    )

    def request(self) -> GroupLinkRequest:
        """As it is put into the queue."""
        return GroupLinkRequest(
            organization_id=self.organization_id,
            enrolment_id=self.enrolment_id,
            flow=self.flow,
            student_name=self.student_name,
            phone=self.phone,
            group_link=self.group_link,
            template_name=self.template_name,
            template_language=self.template_language,
            delay_ms=self.delay_ms,
            max_attempts=self.max_attempts,
        )


class _Answer(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Accepted(_Answer):
    """The job of an enrolment."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "jobId": "0f9d1a2b-6c1e-5b8a-9a43-3f1f5d0c7e21",
                    "created": True,
                    "availableAt": "2026-03-01T12:10:00Z",
                }
            ]
        }
    )

    job_id: UUID
    created: bool = Field(description="False: the enrolment had its job already, and nothing was changed.")
    available_at: datetime | None = Field(description="Not sent before; null while it is held.")


class Reminded(_Answer):
    """The provider has taken the template."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"providerMessageId": "wamid.HBgNNTUxMTk4OA", "jobSettled": None}]}
    )

    provider_message_id: str
    job_settled: bool | None = Field(
        default=None,
        description="Null unless `settleJob` was asked for. True: the order stands, the row follows it in a "
        "moment. False: it could not be written, so the job is as it was.",
    )


class JobView(_Answer):
    """What became of a group link, as far as the queue's row says."""

    job_id: UUID
    enrolment_id: str
    flow: str
    status: Literal["pending", "held", "processing", "sent", "failed"] = Field(
        description="`held`: waits until somebody releases it."
    )
    attempts: int
    max_attempts: int
    available_at: datetime | None = Field(description="Not sent before; null while it is held.")
    provider_message_id: str | None
    last_error: str | None = Field(description="Masked.")
    created_at: datetime
    updated_at: datetime


class Well(_Answer):
    """The process is well."""

    status: Literal["ok"] = "ok"
