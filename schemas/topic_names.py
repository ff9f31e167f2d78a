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

SINK_GROUP: Final = "rajada-sink"
DELAYS_GROUP: Final = "rajada-delays"
"""The forwarders'; and, with a dash and who it is, the transactional id of each."""
GRAVES_GROUP: Final = "rajada-graves"
"""Named by whoever counts dead letters; nobody joins it, and so with the next ones."""
ORIGINALS: Final = "-originals"
ORIGINALS_GROUP: Final = f"{SOURCE}{ORIGINALS}"
WHY_GROUP: Final = "rajada-why"
"""Of all installations, as the next one: without a prefix."""
LIVE_GROUP: Final = "rajada-live"
PRODUCE_ID: Final = "rajada-produce-"
"""How the transactional ids of `rajada produce` begin."""
