"""The kinds of jobs that there are handlers for (`Job.kind`; pure)."""

from __future__ import annotations

from typing import Final

INBOUND_TURN: Final = "inbound_turn"
"""A turn of a conversation, done by the agent engine."""
GROUP_LINK: Final = "group_link_template"
"""A WhatsApp template with the link of a group; its row is in group_link_dispatch_queue."""
