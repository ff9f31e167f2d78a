"""Why a group link is tried again, held or given up, in words (see `ops.reasons`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ops.reasons_of_jobs import Reason

GROUP_LINK_REASONS: Final[Mapping[str, Reason]] = {
    "no_credentials": Reason(
        "no WhatsApp number to send with",
        "Neither the organization nor the settings name a number and its access token: group links are held.",
        "`rajada whatsapp set`, or WHATSAPP_PHONE_NUMBER_ID and WHATSAPP_ACCESS_TOKEN and a new start.",
    ),
    "credentials_refused": Reason(
        "the WhatsApp number may not send",
        "The provider refuses its token, its permissions, its account or its payment; the job is held.",
        "Put it right there (or `rajada whatsapp set` with a new token), then `rajada group-links retry`.",
    ),
    "credentials_unreadable": Reason(
        "the WhatsApp number could not be looked up",
        "Postgres could not be asked for the organization's number; no attempt is spent.",
    ),
    "number_busy": Reason(
        "the WhatsApp number's rate is used up",
        "More waits to be sent than the number may send (RAJADA_WHATSAPP_RATE_PER_S); no attempt is spent.",
    ),
}
"""By code. What the provider says itself is `whatsapp_<code>`, told in docs/group-links.md."""
