"""WhatsApp templates over the Cloud API: one POST a message, never repeated by us.

Rules: spec/group_link.md. The API takes no idempotency key: what may have been taken is never sent again from
here. `biz_opaque_callback_data` carries our id, so that the provider's webhooks name the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from pydantic import SecretStr

from settings import Settings
from streams.handlers.http import HttpClient, Limits
from streams.handlers.paces import Paces
from streams.handlers.whatsapp_replies import THROUGHPUT, NotSent, Sent, read_reply

LONGEST_TURN_S: Final = 10.0
"""Who would have to wait longer for the number's rate is told so instead."""


@dataclass(frozen=True, slots=True)
class Number:
    """A WhatsApp number, and the token that lets us send with it."""

    phone_number_id: str
    access_token: SecretStr


class Template(msgspec.Struct, frozen=True):
    """One message: the approved template, and what its body's variables are."""

    phone: str
    """E.164."""
    name: str
    language: str
    variables: tuple[str, ...]
    """{{1}}, {{2}}, … of its body."""

    def __repr__(self) -> str:
        """Without personal data."""
        return f"Template({self.name!r}, {self.language!r})"


class WhatsApp:
    """Sends templates.

    Args:
        client: the process' pool of connections.
        settings: where the API is, its version, times and rate.
        share: this process' part of a number's rate, above 0 to 1.
        wall_ms: Unix ms.
    """

    def __init__(
        self,
        client: HttpClient,
        settings: Settings,
        *,
        share: Callable[[], float] = lambda: 1.0,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._client = client
        self._base = f"{settings.whatsapp_url.rstrip('/')}/{settings.whatsapp_version}"
        self._limits = Limits(
            connect_s=settings.whatsapp_connect_timeout_s,
            read_s=settings.whatsapp_timeout_s,
            total_s=settings.whatsapp_timeout_s,
        )
        self._paces = Paces(settings.whatsapp_rate_per_s, share)
        self._wall_ms = wall_ms
        self.timeout_s = LONGEST_TURN_S + settings.whatsapp_timeout_s
        """Within so many seconds `send` has returned."""

    async def send(self, number: Number, template: Template, opaque: str) -> Sent | NotSent:
        """Send one template; never raises but CancelledError.

        `opaque`: what the provider's webhooks about this message shall carry, 512 characters at most.
        """
        if not await self._paces.turn(number.phone_number_id, LONGEST_TURN_S):
            return NotSent("rate", "number_busy: its rate is used up", THROUGHPUT)
        body = msgspec.json.encode(_message(template, opaque))
        reply = await self._client.post(
            f"{self._base}/{number.phone_number_id}/messages",
            body,
            {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {number.access_token.get_secret_value()}",
            },
            self._limits,
            repeatable=False,
        )
        return read_reply(reply, self._wall_ms())


def _message(template: Template, opaque: str) -> dict[str, object]:
    return {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": template.phone,
        "type": "template",
        "template": {
            "name": template.name,
            "language": {"code": template.language},
            "components": [
                {
                    "type": "body",
                    "parameters": [{"type": "text", "text": one} for one in template.variables],
                }
            ],
        },
        "biz_opaque_callback_data": opaque,
    }
