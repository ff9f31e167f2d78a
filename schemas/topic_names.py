"""The names of the topics and groups, without the installation's prefix (design, Names; pure).

How each topic is made stands in `streams.topics`; the names stand here, below all who read or write them.
"""

from __future__ import annotations

from typing import Final

SOURCE: Final = "ai_agent.dispatch_requested"
"""Named as the event type that it carries; so is the next."""
GROUP_LINKS: Final = "group_link.dispatch_requested"
JOBS: Final = "dispatch.jobs"
CONTROL: Final = "dispatch.control"
OUTCOMES: Final = "dispatch.outcomes"
DEAD: Final = "dispatch.dead"
PARKING: Final = "dispatch.parking"
DELAY: Final = "dispatch.delay"
"""Of all delay topics: a dot and the tier follow."""
CLOCK: Final = "dispatch.clock"
"""Written to in order to read Kafka's own clock; nobody reads it."""
RECONCILIATION: Final = "conect-whatsapp-reconciliation-queue"
RECONCILER_ID: Final = "yzex-conect"
"""The reconciler's group: an application of its own."""

APP_ID: Final = "rajada-dispatch"
"""The worker's group, and the first part of its changelogs' names."""
CONTACTS_TABLE: Final = "contacts"
CONTACTS_CHANGELOG: Final = f"{APP_ID}-{CONTACTS_TABLE}-changelog"
JOBS_TABLE: Final = "jobs"
JOBS_CHANGELOG: Final = f"{APP_ID}-{JOBS_TABLE}-changelog"
