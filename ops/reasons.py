"""Every reason why an event or a job ended as it did, in words for people: one place for commands and docs.

Those of jobs stand in `ops.reasons_of_jobs`.
`python -m ops.reasons` prints the table of docs/reasons.md; a test holds it, and this catalogue, to the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ops.reasons_of_group_links import GROUP_LINK_REASONS
from ops.reasons_of_jobs import JOB_REASONS, STEPS, Reason

REASONS: Final[Mapping[str, Reason]] = {
    # -- one job, or the stops of a window in their order
    "job": Reason("answered by a job", "The window's messages belong to one job, which answers the newest."),
    "deduplicated": Reason(
        "known before",
        "The event had its outcome already (it was sent or published again); nothing changes.",
    ),
    "org_not_operating": Reason(
        "the organization is not active here",
        "The AI answers only for organizations whose status is exactly `active`.",
        "Set its status to active; if there is no such organization here, correct who writes the event.",
    ),
    "org_external_dispatch": Reason(
        "another system answers",
        "The organization's `ai_dispatch_mode` is `external`.",
        "Remove ai_dispatch_mode from the organization's settings.",
    ),
    "group_or_missing_conversation": Reason(
        "a group, or no conversation",
        "The conversation is a group, or is not in this organization.",
    ),
    "no_published_agent": Reason(
        "no agent serves the channel",
        "No published, unarchived agent and no active router with one is on this channel session.",
        "Publish an agent on the channel.",
    ),
    "superseded_by_newer_inbound": Reason(
        "a newer message answers for it",
        "A newer message of the conversation came meanwhile; its own turn reads the whole history.",
    ),
    "yielded_to_followup": Reason(
        "a follow-up answers",
        "An armed return follow-up enrolls this message: one voice answers.",
    ),
    "not_eligible:channel_disabled": Reason(
        "the channel is switched off", "The channel session is marked `disabled`.", "Enable the channel."
    ),
    "not_eligible:force_human": Reason(
        "the contact is kept for people",
        "The contact is marked `force_human`.",
        "Remove the mark from the contact.",
    ),
    "not_eligible:conversation_silenced": Reason(
        "the AI is silenced here", "`bot_silenced_until` of the conversation lies ahead."
    ),
    "not_eligible:human_owner": Reason(
        "a person has the conversation",
        "The conversation is assigned to a user.",
        "Give the conversation back to the AI.",
    ),
    "not_eligible:not_on_test_list": Reason(
        "not on the test list",
        "The channel is before its go-live and answers the numbers of its test list only.",
        "Add the number to the list, or go live.",
    ),
    "not_eligible:not_authorized": Reason(
        "the contact is not authorized",
        "The channel answers authorized contacts only (`ai_gate` is `allowlist`).",
        "Authorize the contact.",
    ),
    "not_eligible:authorization_expired": Reason(
        "the authorization has expired",
        "The contact was authorized longer ago than ALLOWLIST_TTL_DAYS.",
        "Authorize the contact again.",
    ),
    "too_old": Reason("too old to be answered", "The window's newest message is older than EVENT_MAX_AGE."),
    # -- what the reading of records finds
    "invalid_payload": Reason(
        "the payload is not a message's",
        "The payload lacks one of its four UUIDs; it is consumed and not tried again.",
        "Correct whoever writes the event, and write it anew.",
    ),
    "null_value": Reason("a record without a value", "The record on the topic has no value."),
    "not_json": Reason("unreadable bytes", "The record's value is neither Avro nor JSON."),
    "not_an_event": Reason("not an event", "The record is JSON, but no row of the event log."),
    "wrong_event_type": Reason("another type of event", "The topic carries one event type; this is another."),
    "unknown_schema": Reason(
        "written with an unknown schema",
        "The record was written with an Avro schema that no worker knew for an hour.",
        "Upgrade Rajada, then requeue the dead letter (its bytes are whole).",
    ),
    "bad_avro": Reason("broken Avro", "The record claims to be Avro, but its bytes do not fit the schema."),
    "not_avro": Reason("not Avro", "An outcome on the topic is not Avro: another program writes there."),
    "key_mismatch": Reason(
        "under the wrong key",
        "The record was put under its right key once and came back under a wrong one.",
        "Find out which producer uses another partitioner (murmur2 is needed).",
    ),
    "record_too_large": Reason(
        "larger than the topic allows",
        "The event's row is above the topic's max.message.bytes; the row itself has it all.",
        "Raise max.message.bytes of the topic and produce it again, or answer by hand.",
    ),
    "refused_by_postgres": Reason(
        "Postgres refuses the outcome",
        "The outcome could not be written to the CRM's tables.",
        "Look at the dead letter's message, correct the tables, produce it again.",
    ),
    # -- failures of a decision, and deaths
    "contact_missing": Reason(
        "the contact does not exist",
        "The payload's contact is not in the organization; it was looked for several times.",
        "Was the contact deleted or merged? Answer by hand.",
    ),
    **JOB_REASONS,
    **GROUP_LINK_REASONS,
}
"""By name. Those that carry an id (`merged:<job>`) or an SQLSTATE (`sqlstate_23514`) go by their start."""

WARNINGS: Final[Mapping[str, str]] = {
    "followup_unreadable": "whether a follow-up answers could not be read: the AI answers",
    "eligibility_unreadable": "whether the AI may answer could not be read: it does",
    "media_wait_ceiling_passed": "a photo or an audio was not read in time: answered without it",
    "starving_conversation": "newer messages kept coming: answered all the same",
}
"""What a decision went on without."""

_ORDERS: Final = frozenset({"awaited", "noted", "refused"})
"""Steps that name the order, not a reason."""

STATES: Final[Mapping[str, str]] = {
    "pending": "waits",
    "running": "runs",
    "done": "is done",
    "failed": "was cancelled or vetoed",
    "dead": "is dead",
}
"""Of a job."""


def reason(name: str) -> Reason:
    """The reason of that name; one that is not in the catalogue is told by its name."""
    step, _, rest = name.partition(":")
    known = REASONS.get(name) or STEPS.get(name) or REASONS.get(step)
    if known is not None:
        return known
    if step in _ORDERS:
        return STEPS[step]
    if step in STEPS and rest:
        return reason(rest)
    if step.startswith("http_"):
        return Reason(
            f"the server answered {step.removeprefix('http_')}",
            "What that does to a job is told in docs/agent-engine.md.",
        )
    if step.startswith("whatsapp_"):
        return Reason(
            f"WhatsApp error {step.removeprefix('whatsapp_')}",
            "The provider's own code; what it does to a group link is told in docs/group-links.md.",
        )
    if name.startswith("sqlstate_"):
        return Reason(
            f"Postgres error {name.removeprefix('sqlstate_')}",
            "The statement that reads what a decision needs failed for this window, several times.",
            "Look the SQLSTATE up and correct the row that breaks it.",
        )
    return Reason(name.replace("_", " "), "")


def as_markdown() -> str:
    """The catalogue as the table of docs/reasons.md."""
    lines = ["| reason | in words | what it means | what to do |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {one.title} | {one.meaning} | {one.advice} |" for name, one in REASONS.items()]
    lines += ["", "| step of a job | in words | what it means | what to do |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {one.title} | {one.meaning} | {one.advice} |" for name, one in STEPS.items()]
    lines += ["", "| warning | what it means |", "| --- | --- |"]
    lines += [f"| `{name}` | {words} |" for name, words in WARNINGS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
