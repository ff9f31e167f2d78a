"""Every reason why an event or a job ended as it did, in words for people: one place for commands and docs.

`python -m ops.reasons` prints the table of docs/reasons.md; a test holds it, and this catalogue, to the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a few words, what it means, and what to do if it is not wanted."""

    title: str
    meaning: str
    advice: str = ""


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
        "The record was written with an Avro schema that this version does not know.",
        "Upgrade Rajada, then produce the dead letter again (its bytes are whole).",
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
    # -- what a handler says of a job (docs/agent-engine.md)
    "no_engine": Reason(
        "no agent engine is named",
        "There is nobody to hand turns to: they are held, and go on by themselves when the worker knows one.",
        "Set AGENT_ENGINE_URL and start the worker anew.",
    ),
    "engine": Reason("the agent engine's decision", "The engine answered with this reason of its own."),
    "bad_decision": Reason(
        "a decision that can't be understood",
        "The engine's answer names a decision, but none of done, retry and cancelled.",
        "Correct the engine's answer (docs/agent-engine.md).",
    ),
    "bad_payload": Reason(
        "the job's payload is no JSON object",
        "The job's record was written by another program, and wrongly.",
        "Find out who writes to dispatch.jobs.",
    ),
    "timeout": Reason(
        "no whole answer in time",
        "The call took longer than AGENT_ENGINE_TIMEOUT_S and was broken off.",
        "Is the engine overloaded? Raise the setting if turns may take so long.",
    ),
    "read_timeout": Reason(
        "silent for too long",
        "Nothing came from the server within AGENT_ENGINE_READ_TIMEOUT_S.",
        "Is the engine overloaded? Raise the setting if turns may take so long.",
    ),
    "write_timeout": Reason("the request was not taken in time", "The server did not read what was sent."),
    "connect_timeout": Reason(
        "no connection in time",
        "The server did not take a connection within AGENT_ENGINE_CONNECT_TIMEOUT_S.",
        "Is it overloaded, or is a firewall between?",
    ),
    "connection_refused": Reason(
        "nobody listens there", "No server takes connections there.", "Start it, or correct its address."
    ),
    "connect_failed": Reason("no connection", "No connection to the server could be made."),
    "name_unknown": Reason(
        "the server's name is unknown", "Its name could not be resolved.", "Correct the address, or the DNS."
    ),
    "certificate": Reason(
        "the server's certificate is not trusted",
        "It is of an unknown authority, of another name, or out of date.",
        "Mend the certificate, or name its authority in RAJADA_CA_FILE.",
    ),
    "tls": Reason("no TLS connection", "The handshake failed.", "Does the server speak HTTPS on that port?"),
    "disconnected": Reason("the connection broke", "It broke before the answer was whole."),
    "broken_answer": Reason("an answer that is no HTTP", "It was broken off or is no HTTP at all."),
    "unreadable_answer": Reason(
        "an encoded answer",
        "The body is compressed in a way that can't be read, though plain was asked for.",
        "Let the server heed Accept-Encoding.",
    ),
    "redirect_loop": Reason(
        "sent on again and again", "Each answer was a redirect to the same server.", "Correct the address."
    ),
    "not_sent": Reason("the request could not be sent", "The HTTP library refused it."),
    "internal_error": Reason("an error of ours", "A handler failed; the worker's log has the details."),
    # -- what the executor, its intake and the delay topics find
    "worker_lost": Reason(
        "the worker died during the call",
        "Whether the call took effect is unknown: the attempt is spent, the next one has the same key.",
        "Does it happen to one job again and again? Then look at what that job makes the worker do.",
    ),
    "session_not_working": Reason(
        "the channel session does not work",
        "Its status is not WORKING: looked at again after 30 s, doubling to 10 min; no attempt is spent.",
        "Connect the number again; then the jobs go on by themselves, or at once by a `run_now`.",
    ),
    "out_of_credit": Reason(
        "out of credit for too long",
        "The engine answered 402 until 6 h after the job was made.",
        "Top the credit up, then requeue the dead letter.",
    ),
    "unknown_outcome": Reason(
        "nobody knows whether it was sent",
        "The worker died while a group link was being sent; sending it again could reach somebody twice.",
        "Look into the conversation, then release or cancel it (GROUP_LINK_ON_UNKNOWN=resend never holds).",
    ),
    "unknown_kind": Reason(
        "a kind of job without a handler",
        "This version has no handler for the job's kind.",
        "Upgrade Rajada, or find out who writes such jobs; then requeue the dead letter.",
    ),
    "handler_failed": Reason(
        "an error of ours", "A handler raised instead of answering; the worker's log has the details."
    ),
    "no_reason_given": Reason("no reason given", "The other side said no and not why."),
    "other": Reason("another reason", "What was said is no code of ours: the job's last error tells it."),
    "no_key": Reason(
        "a job without a key", "The record on `dispatch.jobs` names no contact.", "Find out who writes there."
    ),
    "no_value": Reason(
        "a job without a value", "The record on `dispatch.jobs` is empty.", "Find out who writes there."
    ),
    "undecodable": Reason(
        "a job or command that can't be read",
        "The record's bytes are none of ours.",
        "Find out who writes to dispatch.jobs or dispatch.control.",
    ),
    "due_at_unreadable": Reason(
        "delayed until nobody knows when",
        "The record came to a delay topic without a readable header `due-at`.",
        "Requeue the dead letter: the job then runs at once.",
    ),
    "too_large_to_delay": Reason(
        "too large for the next topic",
        "The record is larger than the next topic's max.message.bytes.",
        "Raise it (`rajada topics check` tells which differ), then requeue the dead letter.",
    ),
    # -- what ends a job
    "merged": Reason(
        "merged into a newer turn",
        "While a turn of the conversation ran, this one waited and went into a newer one.",
    ),
    "covered_by": Reason(
        "covered by a newer turn",
        "This turn waited for its retry; a newer one of the conversation was done meanwhile.",
    ),
}
"""By name. Those that carry an id (`merged:<job>`) or an SQLSTATE (`sqlstate_23514`) go by their start."""

STEPS: Final[Mapping[str, Reason]] = {
    "done": Reason("answered", "The handler says that the job is done."),
    "retry": Reason("is tried again", "Its next record waits in the delay topics."),
    "dead": Reason("given up", "Its record is in `dispatch.dead`, and an alert is open.", "Requeue it."),
    "held": Reason("held", "It waits until it is released, and spends nothing.", "Release it."),
    "vetoed": Reason("vetoed", "The handler says never: 409, 410 or `cancelled`. Nobody is alarmed."),
    "cancelled": Reason("cancelled", "A person ordered it; a call that was under way was broken off."),
    "released": Reason("released", "It is in its lane again."),
    "run_now": Reason("is run now", "Whatever it waited for, it is in its lane again, before others."),
    "requeued": Reason("requeued", "A dead job was taken up again, with no attempt spent."),
    "handed_back": Reason(
        "handed back", "The worker stopped gracefully before the answer came: the attempt is given back."
    ),
    "awaited": Reason("the order waits", "The job isn't there yet; within a day the order waits for it."),
    "noted": Reason("the order is noted", "The job runs: it is held or not when this attempt has ended."),
    "refused": Reason("the order is refused", "It means nothing in the job's state, which the trace tells."),
}
"""What was done with a job, in its outcomes: before the reason (`retry:http_503`) or alone."""

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
